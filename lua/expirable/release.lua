-- Return permits, also those whose lease has ended, and wake waiters. Used to
-- withdraw an acquisition, too: no late copy of it takes anything then.
--
-- KEYS[1]  semaphore: the number of free permits
-- KEYS[2]  requests: see counter/try_set
-- KEYS[3]  permits that are out: see acquire
-- ARGV[1]  request id; empty: the answer is of no use
-- ARGV[2]  request id of the acquisition to withdraw; empty: none
-- ARGV[3]  how long to keep these ids, ms
-- ARGV[4]  channel
-- ARGV[5]  publish command: publish or spublish
-- ARGV[6]  each: return those that are out; all: return none unless all are out, and
--          no lease has ended
-- ARGV[7]  n: number of permits, from 1 to 100
-- ARGV[8]... n permit ids, each of them once; then ids of earlier requests of which
--          no copy is under way any more
--
-- Returns  1: all were out, and are returned, by this copy or by an earlier one
--          0: some were not out, or their lease had ended
--
-- Repeat   safe: a permit id is used once; a copy that finds its request id gets the
--          same answer
if ARGV[1] ~= '' and redis.call('zscore', KEYS[2], ARGV[1]) then
  return 1
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local n = tonumber(ARGV[7])
local out, all = {}, 1
for i = 8, 7 + n do
  local ends = redis.call('zscore', KEYS[3], ARGV[i])
  if ends then
    out[#out + 1] = ARGV[i]
  end
  if not ends or tonumber(ends) <= now then
    all = 0
  end
end
if all == 0 and ARGV[6] == 'all' then
  return 0
end
-- minus a time: withdrawn
local keeps = {}
if ARGV[1] ~= '' and all == 1 then
  keeps = {string.format('%.0f', now + ARGV[3]), ARGV[1]}
end
if ARGV[2] ~= '' then
  keeps[#keeps + 1] = string.format('%.0f', -now - ARGV[3])
  keeps[#keeps + 1] = ARGV[2]
end
-- first: after a write that needs no memory, a server without any refuses none. It
-- removes nothing. In a slot that moves it fails if the key is on the other server
redis.call('zremrangebyscore', KEYS[2], 1, 0)
local free
if out[1] then
  -- a semaphore that was deleted is not made again
  local is_there = redis.call('exists', KEYS[1]) == 1
  if is_there then
    free = redis.call('incrby', KEYS[1], #out)
  end
  -- refused for a missing right: nothing may stay
  local gone = redis.pcall('zrem', KEYS[3], unpack(out))
  if type(gone) == 'table' then
    if is_there then
      redis.call('incrby', KEYS[1], -#out)
    end
    return gone
  end
end
if keeps[1] then
  redis.call('zadd', KEYS[2], unpack(keeps))
  -- not before: a key that gets empty is gone, and in a slot that moves any further
  -- command on it is refused
  redis.call('zremrangebyscore', KEYS[2], string.format('%.0f', -now), string.format('%.0f', now))
  redis.call('pexpire', KEYS[2], ARGV[3])
end
if ARGV[8 + n] then
  redis.call('zrem', KEYS[2], unpack(ARGV, 8 + n))
end
-- Redisson tells how many are free, or of several permits how many are returned
if free and free > 0 then
  redis.call(ARGV[5], ARGV[4], string.format('%.0f', n == 1 and free or #out))
end
return all
