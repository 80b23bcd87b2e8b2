-- Read the number of a counter: the permits of a semaphore, the count of a latch.
--
-- KEYS[1]  counter: its number
--
-- Returns  the number, as text: it may be negative
--          nil: there is no such counter
--
-- Repeat   safe: nothing is changed
return redis.call('get', KEYS[1])
