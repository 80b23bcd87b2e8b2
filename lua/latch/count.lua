-- Read the count of a latch.
--
-- KEYS[1]  latch: its count
--
-- Returns  the count, as text
--          nil: there is no such latch
--
-- Repeat   safe: nothing is changed
return redis.call('get', KEYS[1])
