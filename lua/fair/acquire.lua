-- A whole turn of a waiter: take the lock if it is free and nobody is before
-- me, or else stand in line, or renew my place there.
--
-- KEYS[1]  lock
-- KEYS[2]  queue of waiters
-- KEYS[3]  their deadlines, server time in ms: who is past it may be dropped;
--          behind the point, in 1024ths, when a waiter of ours was last seen
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
--          integer: another's turn; nothing that concerns this waiter happens
--          by itself for so many ms (-1: without bound)
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

-- what a grant of Redisson's may take from the deadlines of all behind: at
-- least so much, that a deadline tells how many of them are counted in it
local theirs = math.max(tonumber(ARGV[5]), 2 * wait)
local step = math.ceil(wait / 32)

-- thread ids of 2^62 and up, which are of 19 digits all
local function is_ours(holder)
  return holder:sub(-20, -20) == ':' and holder:sub(-19) >= '4611686018427387904'
end

-- a deadline of ours that tells that its waiter was seen so many steps ago
local function seen(deadline, steps)
  local mark = (math.floor(now / step) - (steps or 0)) % 1023 + 1
  return string.format('%.10f', math.floor(deadline) + mark / 1024)
end

-- how many steps ago a waiter of ours was seen, if its deadline tells
local function steps_unseen(deadline)
  local mark = deadline % 1 * 1024
  local unseen = mark > 0 and (math.floor(now / step) + 1 - mark) % 1023 or 0
  -- a mark of the future: a clock was set back
  return unseen <= 1023 - 64 and unseen or 0, mark > 0
end

-- for how long this one keeps its place, if it is not seen
local function kept_for(holder, deadline)
  local left, unseen, tells = math.floor(deadline) - now, steps_unseen(deadline)
  if not tells or not is_ours(holder) then
    return left
  end
  return math.min(left, (33 - unseen) * step - now % step)
end

-- whether a deadline of ours outlasts the grants before it, and the next turn;
-- at its waiter's last turn it did: if that is not long ago, what is left is
-- `theirs` for each of Redisson's before it, and a rest
local function is_settled(holder, deadline)
  local rest = (math.floor(deadline) - now - 1) % theirs + 1
  return rest >= wait * 4 / 5 and kept_for(holder, deadline) > wait / 4
end

-- Gives all of ours in line the deadline they need: `wait` from now, and what
-- the grants of Redisson's waiters before them may take. Redisson's keep their
-- distance from the one of ours before them. Returns whether I stand in line,
-- and what one behind the last needs.
local function settle()
  local need, before, moved, found = now + wait, 0, 0, false
  for _, holder in ipairs(redis.call('lrange', queue, 0, -1)) do
    local deadline = tonumber(redis.call('zscore', deadlines, holder))
    if is_ours(holder) then
      local due = math.max(need, before)
      moved = due - math.floor(deadline or due)
      if holder == me or not deadline then
        redis.call('zadd', deadlines, seen(due), holder)
      elseif steps_unseen(deadline) > 512 then
        -- marks come round, and the dead must not come back
        redis.call('zadd', deadlines, seen(due, 256), holder)
      elseif moved ~= 0 then
        redis.call('zadd', deadlines, string.format('%.10f', deadline + moved), holder)
      end
      found = found or holder == me
    else
      if not deadline or moved ~= 0 then
        deadline = deadline and deadline + moved or math.max(need, before) + theirs
        redis.call('zadd', deadlines, string.format('%.10f', deadline), holder)
      end
      need, before = need + theirs, math.max(before, math.ceil(deadline))
    end
  end
  return found, math.max(need, before)
end

local function tell(holder)
  redis.call(ARGV[8], ARGV[7] .. ':' .. holder, '0')
end

-- drop who has not been seen for too long
local dropped = false
local head = redis.call('lindex', queue, 0)
local deadline, kept
while head and head ~= me do
  deadline = tonumber(redis.call('zscore', deadlines, head))
  if not deadline then
    -- without one it would stand there for ever
    deadline = tonumber(seen(now + (is_ours(head) and wait or ARGV[5])))
    redis.call('zadd', deadlines, string.format('%.10f', deadline), head)
  end
  kept = kept_for(head, deadline)
  if kept > 0 then
    break
  end
  redis.call('lpop', queue)
  redis.call('zrem', deadlines, head)
  dropped = true
  head = redis.call('lindex', queue, 0)
end

local in_line = head
if ttl == -2 and (not head or head == me) then
  if head then
    local had = tonumber(redis.call('zscore', deadlines, me))
    if had and math.floor(had) > now + wait then
      -- nobody behind has to wait any more for what was not used of it
      settle()
    end
    redis.call('lpop', queue)
    redis.call('zrem', deadlines, me)
    head = redis.call('lindex', queue, 0)
  end
  redis.call('hset', lock, me, '1')
  redis.call('pexpire', lock, lease)
  if not in_line then
    -- of a line that was deleted. Not before HSET: after a first write a server
    -- that has no memory left refuses nothing
    redis.call('del', deadlines)
  end
  -- the next in line may have to look before it looks by itself
  local place = tonumber(lease) < wait * 3 / 10 and 0
  while place and head do
    deadline = tonumber(redis.call('zscore', deadlines, head))
    if not deadline or kept_for(head, deadline) > 0 then
      tell(head)
      break
    end
    place = place + 1
    head = redis.call('lindex', queue, place)
  end
  return nil
end

if ttl == -2 and dropped then
  tell(head)
end

local stands = ARGV[6] == '1'
if stands then
  local had = tonumber(redis.call('zscore', deadlines, me))
  local last = not had and redis.call('lindex', queue, -1)
  -- the first of ours may have more than it needs: those behind it, too
  local first = head == me and had or deadline
  local is_level = not head or not is_ours(head) or not first or math.floor(first) <= now + wait
  if
    had
    and is_level
    and is_settled(me, had)
    and redis.call('llen', queue) == redis.call('zcard', deadlines)
  then
    -- nothing has changed but that I was seen
    redis.call('zadd', deadlines, seen(had), me)
  else
    local tail = last and is_ours(last) and tonumber(redis.call('zscore', deadlines, last))
    local found, need = false, nil
    if not had and is_level and tail and is_settled(last, tail) then
      need = tail
    else
      found, need = settle()
    end
    if not found then
      -- first what can fail: deadlines of another type
      redis.call('zadd', deadlines, seen(need), me)
      redis.call('rpush', queue, me)
      head = head or me
    end
  end
end

if stands and head ~= me and redis.call('lindex', queue, 1) ~= me then
  -- behind the second: a lease that ends is not for me, a dead head may be
  return ttl == -2 and kept or -1
end
if ttl ~= -2 then
  return ttl
end
-- Redisson does not tell the next in line for how long it is to hold the lock
return math.ceil(is_ours(head) and kept or math.min(kept, wait / 40))
