-- Take a free lock for a new outermost hold.
--
-- KEYS[1]  lock
-- ARGV[1]  holder id, used for this one hold and never again
-- ARGV[2]  lease, ms
-- ARGV[3]  not-after: server time in ms past which this copy does nothing
--
-- Returns  nil: granted
--          integer: held by another, for so many ms (-1: without expiry)
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   safe: a holder that is already there gets the same answer
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
  redis.call('hset', KEYS[1], ARGV[1], '1')
end
if ttl < tonumber(ARGV[2]) then
  -- pcall: without the right to PEXPIRE no lock without TTL may stay
  local set = redis.pcall('pexpire', KEYS[1], ARGV[2])
  if set ~= 1 then
    if ttl == -2 then
      redis.call('hdel', KEYS[1], ARGV[1])
    end
    -- again, for an error that names the script: the client undoes what came before
    return redis.call('pexpire', KEYS[1], ARGV[2])
  end
end
return nil
