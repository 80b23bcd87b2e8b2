-- Lower the hold count of a writer; at 0 free the lock, or leave it to the
-- writer's own reads, and wake who waits.
--
-- KEYS[1]  lock
-- ARGV[1]  holder id with `:write` behind it
-- ARGV[2]  hold count after this release
-- ARGV[3]  unlock channel
-- ARGV[4]  publish command: publish or spublish
--
-- Returns  1: released
--          0: the hold is gone
--
-- Repeat   safe: the count is set, not subtracted from; a release to 0 takes
--          the hold away whatever its count, and a second one finds it gone
if ARGV[2] ~= '0' then
  if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return 0
  end
  redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
  return 1
end
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
  return 0
end
-- the reads that were taken under it; each has keys with times of their own
local longest = 0
if redis.call('hlen', KEYS[1]) > 1 then
  local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
  local fields = redis.call('hgetall', KEYS[1])
  for i = 1, #fields, 2 do
    if fields[i] ~= 'mode' then
      for n = 1, tonumber(fields[i + 1]) do
        local left = redis.call('pttl', tag .. ':' .. fields[i] .. ':rwlock_timeout:' .. n)
        longest = math.max(longest, left)
      end
    end
  end
end
if longest > 0 then
  redis.call('hset', KEYS[1], 'mode', 'read')
  redis.call('pexpire', KEYS[1], longest)
else
  redis.call('del', KEYS[1])
end
-- 1: all who sleep may go. One of Redisson's writers that is about to fall
-- asleep misses that; a 0 waits for it.
if redis.call(ARGV[4], ARGV[3], '1') > 0 and longest <= 0 then
  redis.call(ARGV[4], ARGV[3], '0')
end
return 1
