-- Free a plain lock that has this token, and wake a waiter.
--
-- KEYS[1]  lock
-- ARGV[1]  token
-- ARGV[2]  channel of the plain lock
-- ARGV[3]  publish command: publish or spublish
--
-- Returns  1 + n: released; n connections got the message
--          0: the hold is gone
--
-- Repeat   safe: a second copy finds the hold gone
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('del', KEYS[1])
return 1 + redis.call(ARGV[3], ARGV[2], '0')
