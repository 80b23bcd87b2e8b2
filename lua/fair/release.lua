-- Lower the hold count of a holder; at 0 free the lock and wake the waiter
-- whose turn it is.
--
-- KEYS[1]  lock
-- KEYS[2]  queue of waiters
-- KEYS[3]  their deadlines, server time in ms: who is past it may be dropped
-- ARGV[1]  holder id
-- ARGV[2]  hold count after this release
-- ARGV[3]  unlock channel; with `:<holder id>` behind it a waiter's own
-- ARGV[4]  publish command: publish or spublish
--
-- Returns  1: released
--          0: the hold is gone
--
-- Repeat   safe: the count is set, not subtracted from; a release to 0 takes
--          the hold away whatever its count, and a second one finds it gone
if ARGV[2] ~= '0' then
  if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return 0
  end
  redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
  return 1
end
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
  return 0
end
local waiter, place = redis.call('lindex', KEYS[2], 0), 0
if not waiter then
  return 1
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
while waiter do
  local deadline = tonumber(redis.call('zscore', KEYS[3], waiter))
  if not deadline or deadline > now then
    -- its turn drops those before it, and lets their neighbours go with them
    redis.call(ARGV[4], ARGV[3] .. ':' .. waiter, '0')
    return 1
  end
  place = place + 1
  waiter = redis.call('lindex', KEYS[2], place)
end
redis.call('del', KEYS[2], KEYS[3])
return 1
