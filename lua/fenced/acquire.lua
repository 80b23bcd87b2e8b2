-- Take a free lock for a new outermost hold, and a token greater than all
-- before it.
--
-- KEYS[1]  lock
-- KEYS[2]  token counter
-- ARGV[1]  holder id, used for this one hold and never again
-- ARGV[2]  lease, ms
-- ARGV[3]  not-after: server time in ms past which this copy does nothing
--
-- Returns  {1, token}: granted
--          integer: held by another, for so many ms (-1: without expiry)
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   safe: a holder that is already there has its answer and the token
--          it has got; while it holds, nobody else counts the token up
local ttl = redis.call('pttl', KEYS[1])
if ttl ~= -2 and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return ttl
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
if ttl == -2 then
  -- first what can fail: a token counter of another type
  redis.call('incr', KEYS[2])
  -- a leased multi lock of Redisson's lets the counter expire: not with us
  redis.call('persist', KEYS[2])
  -- not what incr says: to Lua, whole numbers are exact up to 2^53 only
  local token = redis.call('get', KEYS[2])
  redis.call('hset', KEYS[1], ARGV[1], '1')
  redis.call('pexpire', KEYS[1], ARGV[2])
  return {1, token}
end
if ttl < tonumber(ARGV[2]) then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return {1, redis.call('get', KEYS[2]) or redis.call('incr', KEYS[2])}
