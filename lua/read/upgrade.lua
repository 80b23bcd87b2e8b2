-- Turn the hold of the only reader into a write hold of the same client.
--
-- KEYS[1]  lock
-- KEYS[2]  timeout key of the read hold. In a slot that moves it may come before
--          ARGV[1] and not among the keys
-- ARGV[1]  holder id of the write hold with `:write` at its end, used for this
--          one hold and never again
-- ARGV[2]  lease, ms
-- ARGV[3]  not-after: server time in ms past which this copy does nothing
-- ARGV[4]  holder id of the read hold
--
-- Returns  nil: it is a write hold now
--          -3: others read too, so the read hold stays
--          another integer: the read hold is gone; the lock is another's for so
--          many ms (-1: without expiry) or free (-2)
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   safe: a write hold that is already there gets the same answer
if not KEYS[2] then
  KEYS[2] = table.remove(ARGV, 1)
end
local taken = redis.call('hexists', KEYS[1], ARGV[1]) == 1
if not taken then
  if redis.call('hexists', KEYS[1], ARGV[4]) == 0 then
    return redis.call('pttl', KEYS[1])
  end
  if redis.call('hlen', KEYS[1]) > 2 then
    return -3
  end
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
if not taken then
  redis.call('hset', KEYS[1], 'mode', 'write', ARGV[1], '1')
  redis.call('hdel', KEYS[1], ARGV[4])
  redis.call('pexpire', KEYS[1], ARGV[2])
  -- pcall: in a slot that moves it may be on another server, and ends with its lease
  redis.pcall('del', KEYS[2])
elseif redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return nil
