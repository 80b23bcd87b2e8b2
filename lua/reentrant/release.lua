-- Lower the hold count of a holder; at 0 free the lock and wake a waiter.
--
-- KEYS[1]  lock
-- ARGV[1]  holder id
-- ARGV[2]  hold count after this release
-- ARGV[3]  unlock channel
-- ARGV[4]  publish command: publish or spublish
--
-- Returns  1 + n: released; n connections got the message
--          0: the hold is gone
--
-- Repeat   safe: the count is set, not subtracted from; a release to 0 takes
--          the hold away whatever its count, and a second copy finds it gone
if ARGV[2] == '0' then
  if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
    return 0
  end
  return 1 + redis.call(ARGV[4], ARGV[3], '0')
end
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
return 1
