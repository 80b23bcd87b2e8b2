-- Extend the hold of a plain lock.
--
-- KEYS[1]  lock
-- ARGV[1]  token
-- ARGV[2]  lease, ms
-- ARGV[3]  not-after: server time in ms past which this copy does nothing
--
-- Returns  1: the hold lasts at least so long
--          0: the hold is gone
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   safe: the TTL never falls
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
-- a key without TTL stays so
local ttl = redis.call('pttl', KEYS[1])
if ttl ~= -1 and ttl < tonumber(ARGV[2]) then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return 1
