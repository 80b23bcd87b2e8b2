-- Read the last token.
--
-- KEYS[1]  token counter
--
-- Returns  the token; 0 when there is no counter
--
-- Repeat   safe: reads only
return redis.call('get', KEYS[1]) or 0
