-- Renew the timeout key of a read hold by itself, where it is: in a slot that
-- moves the lock may be elsewhere.
--
-- KEYS[1]  timeout key
-- ARGV[1]  lease, ms
--
-- Returns  1: renewed
--          0: there is none
--
-- Repeat   safe: its TTL never falls, and it is not made anew
local left = redis.call('pttl', KEYS[1])
if left == -2 then
  return 0
end
if left < tonumber(ARGV[1]) then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
return 1
