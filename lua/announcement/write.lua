-- Write what a client announces: all of it, or what has changed.
--
-- KEYS[1]  announcement: a hash
-- ARGV[1]  not-after: server time in ms past which this copy does nothing
-- ARGV[2]  ttl in ms
-- ARGV[3]  revision that is to be changed; nothing: whatever is there is replaced
-- ARGV[4]  revision that is written
-- ARGV[5]  n: how many fields to remove
-- ARGV[6...5+n] the fields to remove
-- ARGV[6+n...]  field, value, ...: the fields to set
--
-- Returns  1: written
--          0: another revision is there, or nothing; nothing was written
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   safe: the second copy of a change finds its own revision, and
--          answers 0; the caller then writes everything
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[1]) then
  return {now}
end
if ARGV[3] == '' then
  -- refused when memory is short, and where the key is no hash; after a del
  -- the server would let all of it pass
  redis.call('hset', KEYS[1], 'revision', ARGV[4])
  redis.call('del', KEYS[1])
elseif redis.call('hget', KEYS[1], 'revision') ~= ARGV[3] then
  return 0
end
local set = 6 + tonumber(ARGV[5])
redis.call('hset', KEYS[1], 'revision', ARGV[4], 'seen', string.format('%.0f', now), unpack(ARGV, set))
if set > 6 then
  redis.call('hdel', KEYS[1], unpack(ARGV, 6, set - 1))
end
redis.call('pexpire', KEYS[1], ARGV[2])
return 1
