-- Swap a hold for one of another holder, with a token greater than all before it.
--
-- KEYS[1]  lock
-- KEYS[2]  token counter
-- ARGV[1]  holder id of the new hold, used for this one hold and never again
-- ARGV[2]  lease, ms
-- ARGV[3]  not-after: server time in ms past which this copy does nothing
-- ARGV[4]  holder id of the old hold
--
-- Returns  {1, token}: swapped
--          integer: the hold is gone; the lock is another's for so many ms
--          (-1: without expiry) or free (-2)
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   safe: a holder that is there already gets the same answer and token;
--          while it holds, no other copy counts the token up
local taken = redis.call('hexists', KEYS[1], ARGV[1]) == 1
if not taken and redis.call('hexists', KEYS[1], ARGV[4]) == 0 then
  return redis.call('pttl', KEYS[1])
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
if not taken then
  -- first the step that can fail: the token counter may be of another type
  redis.call('incr', KEYS[2])
  -- Redisson's multi lock with a lease gives the counter a TTL, which it must not have
  redis.call('persist', KEYS[2])
  -- not the reply of incr: numbers in Lua are exact only up to 2^53
  local token = redis.call('get', KEYS[2])
  -- the new field first: a hash that is empty for a moment loses its TTL
  redis.call('hset', KEYS[1], ARGV[1], '1')
  redis.call('hdel', KEYS[1], ARGV[4])
  redis.call('pexpire', KEYS[1], ARGV[2])
  return {1, token}
end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return {1, redis.call('get', KEYS[2]) or redis.call('incr', KEYS[2])}
