-- Read the number of free permits.
--
-- KEYS[1]  semaphore: the number of free permits
--
-- Returns  the number, as text: it may be negative
--          nil: there is no such semaphore
--
-- Repeat   safe: nothing is changed
return redis.call('get', KEYS[1])
