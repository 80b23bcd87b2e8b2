-- The token that was given out last.
--
-- KEYS[1]  token counter
--
-- Returns  the token; 0 when there never was one
--
-- Repeat   safe: reads only
return redis.call('get', KEYS[1]) or 0
