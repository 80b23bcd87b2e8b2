-- Raise the hold count of a reader that already holds the lock.
--
-- KEYS[1]  lock
-- KEYS[2]  timeout key of the hold. In a slot that moves it may come before
--          ARGV[1] and not among the keys
-- ARGV[1]  holder id
-- ARGV[2]  lease, ms
-- ARGV[3]  not-after: server time in ms past which this copy does nothing
-- ARGV[4]  hold count after this re-entry
--
-- Returns  1: granted
--          0: the hold is gone
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   safe: the count is set, not added to, and no TTL ever falls
if not KEYS[2] then
  KEYS[2] = table.remove(ARGV, 1)
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return 0
end
-- one key for all its re-entries, with the longest lease: a key for each, as
-- Redisson has them, would be cut off by releases and late copies out of order
local left = redis.call('pttl', KEYS[2])
if left == -2 then
  -- refused in a slot that moves: a new key would then be on both servers
  redis.call('exists', KEYS[1], KEYS[2])
end
redis.call('hset', KEYS[1], ARGV[1], ARGV[4])
-- a key without TTL stays so
if left ~= -1 and left < tonumber(ARGV[2]) then
  redis.call('set', KEYS[2], '1', 'px', ARGV[2])
end
local ttl = redis.call('pttl', KEYS[1])
if ttl ~= -1 and ttl < tonumber(ARGV[2]) then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return 1
