-- Read the token of a plain lock, and the TTL.
--
-- KEYS[1]  lock
--
-- Returns  {pttl, {token, 1}}: pttl in ms, -1 without expiry; {-2, {}} when the
--          lock is free. Of another client's token at most 128 bytes, with those
--          that are no printable ASCII as \xNN
--
-- Repeat   safe: reads only
local token = redis.call('get', KEYS[1])
if not token then
  return {-2, {}}
end
token = string.gsub(string.sub(token, 1, 128), '[^!-~]', function(byte)
  return string.format('\\x%02x', string.byte(byte))
end)
return {redis.call('pttl', KEYS[1]), {token, '1'}}
