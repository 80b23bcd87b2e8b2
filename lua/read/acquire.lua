-- Take a read/write lock for reading, for a new outermost hold: it is free,
-- or read by others, or the caller's own to write.
--
-- KEYS[1]  lock
-- KEYS[2]  timeout key of the hold. In a slot that moves it may come before
--          ARGV[1] and not among the keys
-- ARGV[1]  holder id, used for this one hold and never again
-- ARGV[2]  lease, ms
-- ARGV[3]  not-after: server time in ms past which this copy does nothing
-- ARGV[4]  the write hold under which it reads, or nothing
--
-- Returns  nil: granted
--          integer: held by a writer, for so many ms (-1: without expiry)
--          {now}: this copy came too late; the server's time in ms
--          error WRONGTYPE: the key is a lock of another kind
--
-- Repeat   safe: a holder that is already there gets the same answer
if not KEYS[2] then
  KEYS[2] = table.remove(ARGV, 1)
end
local ttl = redis.call('pttl', KEYS[1])
local again = false
if ttl ~= -2 then
  again = redis.call('hexists', KEYS[1], ARGV[1]) == 1
  local mode = redis.call('hget', KEYS[1], 'mode')
  if not mode then
    return redis.error_reply('WRONGTYPE not a read/write lock')
  end
  local own = ARGV[4] ~= '' and redis.call('hexists', KEYS[1], ARGV[4]) == 1
  if mode ~= 'read' and not own and not again then
    return ttl
  end
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
-- the step that can be refused comes first: in a slot that moves the key may be
-- on another server
local left = redis.call('pttl', KEYS[2])
if again and left == -2 then
  -- refused in a slot that moves: a new key would then be on both servers
  redis.call('exists', KEYS[1], KEYS[2])
end
if left < tonumber(ARGV[2]) then
  redis.call('set', KEYS[2], '1', 'px', ARGV[2])
end
if ttl == -2 then
  redis.call('hset', KEYS[1], 'mode', 'read', ARGV[1], '1')
elseif not again then
  redis.call('hset', KEYS[1], ARGV[1], '1')
end
-- a key without TTL stays so: other readers have it, or the caller's write
if ttl ~= -1 and ttl < tonumber(ARGV[2]) then
  -- pcall: without the right to PEXPIRE no lock without TTL may stay
  local set = redis.pcall('pexpire', KEYS[1], ARGV[2])
  if set ~= 1 then
    if ttl == -2 then
      redis.call('del', KEYS[1])
    elseif not again then
      redis.call('hdel', KEYS[1], ARGV[1])
    end
    if left == -2 then
      redis.call('del', KEYS[2])
    end
    -- again, for an error that names the script: the client undoes what came before
    return redis.call('pexpire', KEYS[1], ARGV[2])
  end
end
return nil
