-- Free the lock, whoever holds it, and wake the waiter whose turn it is.
--
-- KEYS[1]  lock
-- KEYS[2]  queue of waiters
-- KEYS[3]  their deadlines, server time in ms: who is past it may be dropped
-- ARGV[1]  not-after: server time in ms past which this copy does nothing
-- ARGV[2]  unlock channel; with `:<holder id>` behind it a waiter's own
-- ARGV[3]  publish command: publish or spublish
--
-- Returns  1: freed
--          0: nobody held it
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   unsafe: a second copy may free the next holder's lock
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[1]) then
  return {now}
end
-- hlen, unlike exists, refuses a key that is no lock
if redis.call('hlen', KEYS[1]) == 0 then
  return 0
end
redis.call('del', KEYS[1])
local waiter, place = redis.call('lindex', KEYS[2], 0), 0
while waiter do
  local deadline = tonumber(redis.call('zscore', KEYS[3], waiter))
  if not deadline or deadline > now then
    -- its turn drops those before it, and lets their neighbours go with them
    redis.call(ARGV[3], ARGV[2] .. ':' .. waiter, '0')
    return 1
  end
  place = place + 1
  waiter = redis.call('lindex', KEYS[2], place)
end
redis.call('del', KEYS[2], KEYS[3])
return 1
