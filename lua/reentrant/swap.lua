-- Swap a hold for one of another holder.
--
-- KEYS[1]  lock
-- ARGV[1]  holder id of the new hold, used for this one hold and never again
-- ARGV[2]  lease, ms
-- ARGV[3]  not-after: server time in ms past which this copy does nothing
-- ARGV[4]  holder id of the old hold
--
-- Returns  nil: swapped
--          integer: the hold is gone; the lock is another's for so many ms
--          (-1: without expiry) or free (-2)
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   safe: a holder that is there already gets the same answer
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
  -- the new field first: a hash that is empty for a moment loses its TTL
  redis.call('hset', KEYS[1], ARGV[1], '1')
  redis.call('hdel', KEYS[1], ARGV[4])
  redis.call('pexpire', KEYS[1], ARGV[2])
elseif redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return nil
