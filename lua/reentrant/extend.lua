-- Extend a hold for another caller of its client, and count the listeners.
--
-- KEYS[1]  lock
-- ARGV[1]  holder id
-- ARGV[2]  lease, ms
-- ARGV[3]  unlock channel
-- ARGV[4]  numsub or shardnumsub
--
-- Returns  1 + n: the hold goes on; n connections listen to the channel
--          0: the hold is gone
--          -1: the hold goes on; the number of listeners is unknown
--
-- Repeat   safe: the TTL never falls, and a hold that is gone stays gone
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return 0
end
-- a key without TTL stays so
local ttl = redis.call('pttl', KEYS[1])
if ttl ~= -1 and ttl < tonumber(ARGV[2]) then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
-- pcall: the user may lack the right
local listening = redis.pcall('pubsub', ARGV[4], ARGV[3])
if listening.err then
  return -1
end
return 1 + listening[2]
