-- Turn a write hold, under which nobody reads, into a read hold of the same
-- client, and wake the waiters: other readers may come in.
--
-- KEYS[1]  lock
-- KEYS[2]  timeout key of the read hold. In a slot that moves it may come before
--          ARGV[1] and not among the keys
-- ARGV[1]  holder id of the read hold, used for this one hold and never again
-- ARGV[2]  lease, ms
-- ARGV[3]  not-after: server time in ms past which this copy does nothing
-- ARGV[4]  holder id of the write hold, with `:write` at its end
-- ARGV[5]  unlock channel
-- ARGV[6]  publish command: publish or spublish
--
-- Returns  1 + n: it is a read hold now; n connections got the message
--          0: the write hold is gone
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   safe: a read hold that is already there gets the same answer, and
--          waiters that are woken again only look
if not KEYS[2] then
  KEYS[2] = table.remove(ARGV, 1)
end
local taken = redis.call('hexists', KEYS[1], ARGV[1]) == 1
if not taken and redis.call('hexists', KEYS[1], ARGV[4]) == 0 then
  return 0
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
-- the step that can be refused comes first: in a slot that moves the key may be
-- on another server
local left = redis.call('pttl', KEYS[2])
if taken and left == -2 then
  -- refused in a slot that moves: a new key would then be on both servers
  redis.call('exists', KEYS[1], KEYS[2])
end
if left < tonumber(ARGV[2]) then
  redis.call('set', KEYS[2], '1', 'px', ARGV[2])
end
if not taken then
  redis.call('hset', KEYS[1], 'mode', 'read', ARGV[1], '1')
  redis.call('hdel', KEYS[1], ARGV[4])
end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return 1 + redis.call(ARGV[6], ARGV[5], '1')
