-- Read the holders, their hold counts, and the TTL.
--
-- KEYS[1]  lock
--
-- Returns  {pttl, {holder, count, ...}}: pttl in ms, -1 without expiry, -2 when
--          the lock is free
--
-- Repeat   safe: reads only
return {redis.call('pttl', KEYS[1]), redis.call('hgetall', KEYS[1])}
