-- Lower the hold count of a holder; at 0 free the lock and wake the waiter
-- whose turn it is.
--
-- KEYS[1]  lock
-- KEYS[2]  queue of waiters
-- KEYS[3]  their deadlines, server time in ms: a waiter past its own may be removed;
--          after the point, in 1024ths: when a waiter of ours last asked
-- ARGV[1]  holder id
-- ARGV[2]  hold count after this release
-- ARGV[3]  wait: how long a waiter of ours keeps its place, ms, since it last asked
-- ARGV[4]  unlock channel; followed by `:<holder id>` it is a waiter's own
-- ARGV[5]  publish command: publish or spublish
--
-- Returns  1: released
--          0: the hold is gone
--
-- Repeat   safe: the count is set, not subtracted from; a release to 0 takes
--          the hold away whatever its count, and a second copy finds it gone
if ARGV[2] ~= '0' then
  if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return 0
  end
  redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
  return 1
end
-- first the steps that can fail: the keys of the line may be of another type
local waiter = redis.call('lindex', KEYS[2], 0)
if waiter then
  redis.call('zcard', KEYS[3])
end
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
  return 0
end
if not waiter then
  return 1
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- how long it keeps its place if it does not ask again; as in acquire
local function kept_for(holder, deadline)
  local left, mark = math.floor(deadline) - now, deadline % 1 * 1024
  if mark == 0 or holder:sub(-20, -20) ~= ':' or holder:sub(-19) < '4611686018427387904' then
    return left
  end
  local step = math.ceil(ARGV[3] / 32)
  local unseen = (math.floor(now / step) + 1 - mark) % 1023
  if unseen > 1023 - 64 then
    unseen = 0
  end
  return math.min(left, (33 - unseen) * step - now % step)
end

while waiter do
  local deadline = tonumber(redis.call('zscore', KEYS[3], waiter))
  if not deadline or kept_for(waiter, deadline) > 0 then
    redis.call(ARGV[5], ARGV[4] .. ':' .. waiter, '0')
    return 1
  end
  -- Redisson would keep the place until its deadline
  redis.call('lpop', KEYS[2])
  redis.call('zrem', KEYS[3], waiter)
  waiter = redis.call('lindex', KEYS[2], 0)
end
redis.call('del', KEYS[2], KEYS[3])
return 1
