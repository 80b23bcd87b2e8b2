-- Take a free plain lock for a new hold.
--
-- KEYS[1]  lock
-- ARGV[1]  token, used for this one hold and never again
-- ARGV[2]  lease, ms
-- ARGV[3]  not-after: server time in ms past which this copy does nothing
--
-- Returns  nil: granted
--          integer: held by another, for so many ms (-1: without expiry)
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   safe: a token that is already there gets the same answer
local holder = redis.call('get', KEYS[1])
if holder and holder ~= ARGV[1] then
  return redis.call('pttl', KEYS[1])
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
if not holder then
  redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])
elseif redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return nil
