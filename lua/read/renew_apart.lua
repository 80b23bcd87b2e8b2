-- Renew only the timeout key of a read hold: in a slot that moves the lock may be
-- on another server.
--
-- KEYS[1]  timeout key
-- ARGV[1]  lease, ms
--
-- Returns  1: renewed
--          0: there is none
--
-- Repeat   safe: its TTL never falls, and a key that is gone stays gone
local left = redis.call('pttl', KEYS[1])
if left == -2 then
  return 0
end
if left < tonumber(ARGV[1]) then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
return 1
