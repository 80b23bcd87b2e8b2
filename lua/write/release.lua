-- Lower the hold count of a writer; at 0 free the lock, or leave it to the
-- writer's own reads, and wake the waiters.
--
-- KEYS[1]  lock
-- ARGV[1]  holder id with `:write` at its end
-- ARGV[2]  hold count after this release
-- ARGV[3]  unlock channel
-- ARGV[4]  publish command: publish or spublish
--
-- Returns  1 + n: released; n connections got the message
--          0: the hold is gone
--
-- Repeat   safe: the count is set, not subtracted from; a release to 0 takes
--          the hold away whatever its count, and a second copy finds it gone
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return 0
end
if ARGV[2] ~= '0' then
  redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
  return 1
end
-- the reads under it; each has keys with TTLs of their own
local longest, unknown, budget = 0, false, 10000
if redis.call('hlen', KEYS[1]) > 2 then
  local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
  local fields = redis.call('hgetall', KEYS[1])
  for i = 1, #fields, 2 do
    if fields[i] ~= 'mode' and fields[i] ~= ARGV[1] then
      local count = tonumber(fields[i + 1])
      if not count or count > budget then
        -- not a count of entries, or so many that the server would be busy for long
        unknown, count = true, 0
      end
      for n = 1, count do
        budget = budget - 1
        local timeout = tag .. ':' .. fields[i] .. ':rwlock_timeout:' .. n
        local left = redis.pcall('pttl', timeout)
        if left == -1 then
          -- it was made to last, and so is the hold
          unknown = true
        elseif type(left) == 'number' and left ~= -2 then
          longest = math.max(longest, left)
        elseif redis.pcall('exists', KEYS[1], timeout) ~= 1 then
          -- refused in a slot that moves: a key on another server is not a dead one
          unknown = true
        end
      end
    end
  end
end
local read = unknown or longest > 0
if read then
  redis.call('hdel', KEYS[1], ARGV[1])
  redis.call('hset', KEYS[1], 'mode', 'read')
  if not unknown then
    redis.call('pexpire', KEYS[1], longest)
  end
else
  redis.call('del', KEYS[1])
end
-- 1: all sleeping waiters may try. A writer of Redisson that is about to sleep
-- misses it, so a 0 follows, which waits for it.
local listening = redis.call(ARGV[4], ARGV[3], '1')
if listening > 0 and not read then
  redis.call(ARGV[4], ARGV[3], '0')
end
return 1 + listening
