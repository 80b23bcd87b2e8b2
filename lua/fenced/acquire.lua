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
-- Repeat   safe: a holder that is already there gets the same answer and token;
--          while it holds, no other copy counts the token up
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
  -- first the step that can fail: the token counter may be of another type
  redis.call('incr', KEYS[2])
  -- Redisson's multi lock with a lease gives the counter a TTL, which it must not have
  redis.call('persist', KEYS[2])
  -- not the reply of incr: numbers in Lua are exact only up to 2^53
  local token = redis.call('get', KEYS[2])
  redis.call('hset', KEYS[1], ARGV[1], '1')
  -- pcall: without the right to PEXPIRE no lock without TTL may stay
  local set = redis.pcall('pexpire', KEYS[1], ARGV[2])
  if set ~= 1 then
    redis.call('hdel', KEYS[1], ARGV[1])
    -- again, for an error that names the script: the client undoes what came before
    return redis.call('pexpire', KEYS[1], ARGV[2])
  end
  return {1, token}
end
if ttl < tonumber(ARGV[2]) then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return {1, redis.call('get', KEYS[2]) or redis.call('incr', KEYS[2])}
