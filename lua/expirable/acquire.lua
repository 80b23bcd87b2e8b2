-- Take permits with a lease if there are enough of them. Permits whose lease has
-- ended are returned before, 100 at most.
--
-- KEYS[1]  semaphore: the number of free permits
-- KEYS[2]  requests: see counter/try_set
-- KEYS[3]  permits that are out: their ids, with the server time in ms at which
--          the lease ends
-- ARGV[1]  request id
-- ARGV[2]  lease, ms
-- ARGV[3]  not-after: server time in ms past which this copy does nothing
-- ARGV[4]  channel
-- ARGV[5]  publish command: publish or spublish
-- ARGV[6]  n: number of permits, from 1 to 100
-- ARGV[7]... n permit ids, which no other request uses; then ids of earlier requests
--          of which no copy is under way any more
--
-- Returns  {1, f, ms}: granted; f permits are free now; the next lease, perhaps this
--          one, ends in so many ms
--          {0, f, ms}: refused; f permits are free; the next lease whose end frees a
--          permit ends in so many ms, or -1 if there is none
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   safe: a copy that finds its permits takes only those that are missing, and
--          makes no lease shorter; one that finds its id withdrawn takes nothing
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
local free = tonumber(redis.call('get', KEYS[1]) or '0')
if not free then
  return redis.error_reply('WRONGTYPE the number of permits is no integer')
end
local over = redis.call('zrangebyscore', KEYS[3], '-inf', string.format('%.0f', now), 'limit', 0, 100)
local known = redis.call('zscore', KEYS[2], ARGV[1])
local is_there = redis.call('exists', KEYS[1]) == 1
local sweeps = over[1] and is_there
if sweeps then
  free = redis.call('incrby', KEYS[1], #over)
  -- refused for a missing right: nothing may stay
  local gone = redis.pcall('zrem', KEYS[3], unpack(over))
  if type(gone) == 'table' then
    redis.call('incrby', KEYS[1], -#over)
    return gone
  end
end
local first = redis.call('zrange', KEYS[3], 0, 0, 'withscores')
local n = tonumber(ARGV[6])
local missing, taken = 0, {}
for i = 7, 6 + n do
  local ends = redis.call('zscore', KEYS[3], ARGV[i])
  if not ends then
    missing = missing + 1
  end
  taken[#taken + 1] = string.format('%.0f', math.max(ends or now, now + ARGV[2]))
  taken[#taken + 1] = ARGV[i]
end
local granted = is_there and not known and (missing == 0 or free >= missing)
if granted then
  if missing > 0 then
    free = redis.call('incrby', KEYS[1], -missing)
  end
  local added = redis.pcall('zadd', KEYS[3], unpack(taken))
  if type(added) == 'table' then
    redis.call('incrby', KEYS[1], missing)
    return added
  end
  local ttl = redis.call('pttl', KEYS[1])
  if ttl > 0 then
    redis.call('pexpire', KEYS[3], ttl)
  end
  if ARGV[7 + n] then
    redis.call('zrem', KEYS[2], unpack(ARGV, 7 + n))
  end
end
if sweeps and free > 0 then
  redis.call(ARGV[5], ARGV[4], string.format('%.0f', free))
end
if granted then
  local ends = math.min(first[2] or math.huge, now + ARGV[2])
  return {1, free, math.max(0, ends - now)}
end
-- nothing is taken back for a semaphore that is gone
return {0, free, is_there and first[2] and math.max(0, first[2] - now) or -1}
