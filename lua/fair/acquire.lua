-- A whole turn of a waiter: take the lock if it is free and nobody is before
-- me, or else stand in line, or renew my place there.
--
-- KEYS[1]  lock
-- KEYS[2]  queue of waiters
-- KEYS[3]  their deadlines, server time in ms: who is past it may be dropped
-- ARGV[1]  holder id, used for this one hold and never again
-- ARGV[2]  lease, ms
-- ARGV[3]  not-after: server time in ms past which this copy does nothing
-- ARGV[4]  wait: how long a waiter of ours keeps its place unseen, ms
-- ARGV[5]  how long one of Redisson's does, ms
-- ARGV[6]  1: stand in line; 0: only try
-- ARGV[7]  unlock channel; with `:<holder id>` behind it a waiter's own
-- ARGV[8]  publish command: publish or spublish
--
-- Returns  nil: granted
--          integer: another's turn; nothing happens by itself for so many ms
--          (-1: without bound)
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   safe: a holder that is already there has its answer, granted, and
--          nobody stands in line twice
local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
local me, lease, wait = ARGV[1], ARGV[2], tonumber(ARGV[4])
local ttl = redis.call('pttl', lock)
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
if ttl ~= -2 and redis.call('hexists', lock, me) == 1 then
  if ttl < tonumber(lease) then
    redis.call('pexpire', lock, lease)
  end
  return nil
end

-- thread ids of 2^62 and up, which are of 19 digits all
local function is_ours(holder)
  return holder:sub(-20, -20) == ':' and holder:sub(-19) >= '4611686018427387904'
end

local function wait_of(holder)
  return is_ours(holder) and wait or tonumber(ARGV[5])
end

local function move(holder, by)
  -- only one that is there: whoever lost it is given a new one at the head
  redis.call('zadd', deadlines, 'xx', 'incr', string.format('%.0f', by), holder)
end

-- drop who has not been seen for too long
local dropped = false
local head = redis.call('lindex', queue, 0)
local deadline
while head do
  deadline = tonumber(redis.call('zscore', deadlines, head))
  if not deadline then
    -- without one it would stand there for ever
    deadline = now + wait_of(head)
    redis.call('zadd', deadlines, string.format('%.0f', deadline), head)
  end
  if deadline > now then
    break
  end
  redis.call('lpop', queue)
  redis.call('zrem', deadlines, head)
  dropped = true
  if is_ours(head) then
    -- those of ours next to it were not to outlast it: they may be as dead
    for _, holder in ipairs(redis.call('lrange', queue, 0, -1)) do
      if not is_ours(holder) then
        break
      end
      move(holder, -wait)
    end
  end
  head = redis.call('lindex', queue, 0)
end

if ttl == -2 and (not head or head == me) then
  if head then
    redis.call('lpop', queue)
    redis.call('zrem', deadlines, me)
    -- nobody behind has to wait any more for what I had left
    local left = math.min(wait, deadline - now)
    for _, holder in ipairs(redis.call('lrange', queue, 0, -1)) do
      move(holder, -left)
    end
  end
  redis.call('hset', lock, me, '1')
  redis.call('pexpire', lock, lease)
  return nil
end

if head and head ~= me then
  -- one of ours that heads the line shows itself more often than every `wait`
  if deadline > now + wait and is_ours(head) then
    deadline = now + wait
    redis.call('zadd', deadlines, string.format('%.0f', deadline), head)
  end
  if ttl == -2 and dropped then
    redis.call(ARGV[8], ARGV[7] .. ':' .. head, '0')
  end
end

if ARGV[6] == '1' then
  -- a grant takes its waiter's wait from the deadlines of all behind: mine must
  -- outlast the grants of all before me
  local need, before, place = now + wait, nil, nil
  local line = redis.call('lrange', queue, 0, -1)
  for i, holder in ipairs(line) do
    if holder == me then
      place = i
      break
    end
    need = need + wait_of(holder)
    before = holder
  end
  if before then
    need = math.max(need, (tonumber(redis.call('zscore', deadlines, before)) or 0) + wait)
  end
  if not place then
    -- first what can fail: deadlines of another type
    redis.call('zadd', deadlines, string.format('%.0f', need), me)
    redis.call('rpush', queue, me)
  else
    local had = tonumber(redis.call('zscore', deadlines, me)) or need
    -- a little earlier will do until my next turn, and spares those behind
    if need < had or need - had > wait / 5 then
      redis.call('zadd', deadlines, string.format('%.0f', need), me)
      for i = place + 1, need > had and #line or place do
        move(line[i], need - had)
      end
    end
  end
end

if ttl == -2 then
  return head and head ~= me and math.max(0, deadline - now) or 0
end
return ttl
