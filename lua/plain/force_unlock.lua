-- Free a plain lock, whoever holds it, and wake a waiter.
--
-- KEYS[1]  lock
-- ARGV[1]  not-after: server time in ms past which this copy does nothing
-- ARGV[2]  channel of the plain lock
-- ARGV[3]  publish command: publish or spublish
--
-- Returns  1: freed
--          0: it was free
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   unsafe: a second copy may free the next holder's lock
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[1]) then
  return {now}
end
-- get, unlike exists, refuses a key that is not a plain lock
if not redis.call('get', KEYS[1]) then
  return 0
end
redis.call('del', KEYS[1])
redis.call(ARGV[3], ARGV[2], '0')
return 1
