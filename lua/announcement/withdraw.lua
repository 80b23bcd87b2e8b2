-- Remove what a client announced.
--
-- KEYS[1]  announcement
--
-- Returns  1: removed, 0: there was none
--
-- Repeat   safe: there is nothing to remove
return redis.call('del', KEYS[1])
