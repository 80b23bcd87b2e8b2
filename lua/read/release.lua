-- Lower the hold count of a reader; at 0 take its hold away, and free the lock
-- and wake a waiter if no other reader is alive.
--
-- KEYS[1]  lock
-- KEYS[2]  timeout key of the hold. In a slot that moves it may come before
--          ARGV[1] and not among the keys
-- ARGV[1]  holder id
-- ARGV[2]  hold count after this release
-- ARGV[3]  unlock channel
-- ARGV[4]  publish command: publish or spublish
--
-- Returns  2 + n: released, and the lock is free; n connections got the message
--          1: released; others hold it
--          0: the hold is gone
--
-- Repeat   safe: the count is set, not subtracted from; a release to 0 takes
--          the hold away whatever its count, and a second copy finds it gone
if not KEYS[2] then
  KEYS[2] = table.remove(ARGV, 1)
end
local held = redis.call('hexists', KEYS[1], ARGV[1]) == 1
if ARGV[2] ~= '0' then
  if not held then
    return 0
  end
  redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
  return 1
end
if not held then
  -- a force unlock leaves it behind. pcall: in a slot that moves it may be on
  -- another server, and ends with its lease
  redis.pcall('del', KEYS[2])
  return 0
end
if redis.call('pttl', KEYS[2]) == -2 then
  -- refused in a slot that moves: it may be on another server
  redis.call('exists', KEYS[1], KEYS[2])
end
-- some of the remaining readers may be dead
local longest, unknown, budget = 0, false, 10000
if redis.call('hget', KEYS[1], 'mode') == 'write' then
  unknown = true
elseif redis.call('hlen', KEYS[1]) > 2 then
  local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
  local fields = redis.call('hgetall', KEYS[1])
  for i = 1, #fields, 2 do
    if fields[i] ~= 'mode' and fields[i] ~= ARGV[1] then
      local count = tonumber(fields[i + 1])
      if not count or count > budget then
        -- not a count of entries, or so many that the server would be busy for long
        unknown, count = true, 0
      end
      local is_dead = count >= 1
      for n = 1, count do
        budget = budget - 1
        local timeout = tag .. ':' .. fields[i] .. ':rwlock_timeout:' .. n
        local left = redis.pcall('pttl', timeout)
        if left == -1 then
          -- it was made to last, and so is the hold
          unknown, is_dead = true, false
        elseif type(left) == 'number' and left ~= -2 then
          longest, is_dead = math.max(longest, left), false
        elseif redis.pcall('exists', KEYS[1], timeout) ~= 1 then
          -- refused in a slot that moves: a key on another server is not a dead one
          unknown, is_dead = true, false
        end
      end
      if is_dead then
        -- it would be counted again by each release
        redis.call('hdel', KEYS[1], fields[i])
      end
    end
  end
end
redis.call('hdel', KEYS[1], ARGV[1])
redis.call('del', KEYS[2])
if unknown then
  return 1
end
if longest > 0 then
  redis.call('pexpire', KEYS[1], longest)
  return 1
end
redis.call('del', KEYS[1])
return 2 + redis.call(ARGV[4], ARGV[3], '0')
