-- Raise the hold count of a holder that already holds the lock.
--
-- KEYS[1]  lock
-- ARGV[1]  holder id
-- ARGV[2]  lease, ms
-- ARGV[3]  not-after: server time in ms past which this copy does nothing
-- ARGV[4]  hold count after this re-entry
--
-- Returns  1: granted
--          0: the hold is gone
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   safe: the count is set, not added to, and the TTL never falls
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('hset', KEYS[1], ARGV[1], ARGV[4])
-- a key without TTL stays so
local ttl = redis.call('pttl', KEYS[1])
if ttl ~= -1 and ttl < tonumber(ARGV[2]) then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return 1
