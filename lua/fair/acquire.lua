-- A waiter's turn: take the lock if it is free and no waiter is before this one.
-- Otherwise enter the line, or renew the place there. `Ours` are the waiters and
-- holders of this crate, the others are Redisson's.
--
-- KEYS[1]  lock
-- KEYS[2]  queue of waiters
-- KEYS[3]  their deadlines, server time in ms: a waiter past its own may be removed;
--          after the point, in 1024ths: when a waiter of ours last asked
-- ARGV[1]  holder id, used for this one hold and never again
-- ARGV[2]  lease, ms
-- ARGV[3]  not-after: server time in ms past which this copy does nothing
-- ARGV[4]  wait: how long a waiter of ours keeps its place, ms, since it last asked
-- ARGV[5]  the same for a waiter of Redisson, ms
-- ARGV[6]  1: stand in line; 0: only try
-- ARGV[7]  unlock channel; followed by `:<holder id>` it is a waiter's own
-- ARGV[8]  publish command: publish or spublish
--
-- Returns  nil: granted
--          integer: another's turn; without a message nothing changes for this
--          waiter for so many ms (-1: without bound)
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   safe: a holder that is already there gets the same answer, and no
--          waiter stands in line twice
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

-- what a grant by Redisson may take from the deadlines of all behind: ARGV[5], or
-- more. It is at least this large, so that a deadline shows how many of them it
-- includes
local theirs = math.max(tonumber(ARGV[5]), 2 * wait)
-- marks count steps: 32 to a `wait`, and after 1023 steps they repeat
local step = math.ceil(wait / 32)

-- ids from 2^62 on, which all have 19 digits
local function is_ours(holder)
  return holder:sub(-20, -20) == ':' and holder:sub(-19) >= '4611686018427387904'
end

-- a deadline of ours whose waiter asked so many steps ago
local function seen(deadline, steps)
  local mark = (math.floor(now / step) - (steps or 0)) % 1023 + 1
  return string.format('%.10f', math.floor(deadline) + mark / 1024)
end

-- how many steps ago a waiter of ours last asked, and whether its deadline tells
local function steps_unseen(deadline)
  local mark = deadline % 1 * 1024
  local unseen = mark > 0 and (math.floor(now / step) + 1 - mark) % 1023 or 0
  -- a mark that is up to 64 steps in the future: a clock was set back
  return unseen <= 1023 - 64 and unseen or 0, mark > 0
end

-- how long a waiter keeps its place if it does not ask again: one of ours for a
-- `wait`, rounded up to the end of a step
local function kept_for(holder, deadline)
  local left, unseen, tells = math.floor(deadline) - now, steps_unseen(deadline)
  if not tells or not is_ours(holder) then
    return left
  end
  return math.min(left, (33 - unseen) * step - now % step)
end

-- whether a deadline of ours outlasts the grants before it, and the next turn. At
-- its waiter's last turn it did. If that is not long ago, the rest of it is
-- `theirs` for each of Redisson's waiters before it, and a remainder
local function is_settled(holder, deadline)
  local rest = (math.floor(deadline) - now - 1) % theirs + 1
  return rest >= wait * 4 / 5 and kept_for(holder, deadline) > wait / 4
end

-- Gives all of our waiters the deadline they need: `wait` from now, and what the
-- grants of Redisson's waiters before them may take. Redisson's waiters keep
-- their distance from ours before them. Returns whether `me` stands in line, and
-- the deadline that one behind the last needs.
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
        -- halfway to where marks repeat: a dead waiter must not come back. It is
        -- given a mark that is 256 steps old
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

-- Redisson's multi lock with a lease gives the line that TTL, which is too short.
-- Without any it would stay for ever when all waiters have died
local function keep_line()
  local long = 10000 * ARGV[5]
  if redis.call('pttl', queue) < long / 2 or redis.call('pttl', deadlines) < long / 2 then
    redis.call('pexpire', queue, string.format('%.0f', long))
    redis.call('pexpire', deadlines, string.format('%.0f', long))
  end
end

local function tell(holder)
  redis.call(ARGV[8], ARGV[7] .. ':' .. holder, '0')
end

-- remove waiters that have not asked for too long
local dropped = false
local head = redis.call('lindex', queue, 0)
local head_deadline, head_kept
while head and head ~= me do
  head_deadline = tonumber(redis.call('zscore', deadlines, head))
  if not head_deadline then
    -- without a deadline it would stay for ever
    head_deadline = tonumber(seen(now + (is_ours(head) and wait or ARGV[5])))
    redis.call('zadd', deadlines, string.format('%.10f', head_deadline), head)
  end
  head_kept = kept_for(head, head_deadline)
  if head_kept > 0 then
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
      -- the waiters behind need not wait for its unused part
      settle()
    end
    redis.call('lpop', queue)
    redis.call('zrem', deadlines, me)
    head = redis.call('lindex', queue, 0)
  end
  redis.call('hset', lock, me, '1')
  -- pcall: without the right to PEXPIRE no lock without TTL may stay
  local set = redis.pcall('pexpire', lock, lease)
  if set ~= 1 then
    redis.call('hdel', lock, me)
  elseif not in_line then
    -- those of a line that was deleted. Not before HSET: a server without memory
    -- refuses nothing after the first write
    redis.call('del', deadlines)
  else
    keep_line()
  end
  -- the next in line may have to ask earlier than it would by itself: every 3/10
  -- of a `wait`. If this one was refused, at once
  local place = (set ~= 1 or tonumber(lease) < wait * 3 / 10) and 0
  while place and head do
    local deadline = tonumber(redis.call('zscore', deadlines, head))
    if not deadline or kept_for(head, deadline) > 0 then
      tell(head)
      break
    end
    if set == 1 then
      place = place + 1
    else
      -- Redisson would keep the place until its deadline
      redis.call('lpop', queue)
      redis.call('zrem', deadlines, head)
    end
    head = redis.call('lindex', queue, place)
  end
  if set ~= 1 then
    -- again, for an error that names the script: the client undoes what came before
    return redis.call('pexpire', lock, lease)
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
  -- the first of ours may have more than it needs; then those behind it have, too
  local first = head == me and had or head_deadline
  local is_level = not head or not is_ours(head) or not first or math.floor(first) <= now + wait
  if
    had
    and is_level
    and is_settled(me, had)
    and redis.call('llen', queue) == redis.call('zcard', deadlines)
  then
    -- nothing has changed, except that this waiter has asked
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
      -- first the steps that can fail: without the right to PEXPIRE no new line without
      -- TTL may stay, and the deadlines may be of another type
      if not head then
        redis.call('pexpire', queue, '1')
      end
      redis.call('zadd', deadlines, seen(need), me)
      redis.call('rpush', queue, me)
      head = head or me
    end
  end
  keep_line()
end

if stands and head ~= me and redis.call('lindex', queue, 1) ~= me then
  -- behind the second: the end of a lease does not concern this waiter, a dead
  -- head may
  return ttl == -2 and head_kept or -1
end
if ttl ~= -2 then
  return ttl
end
-- Redisson does not tell the next in line how long it will hold the lock
return math.ceil(is_ours(head) and head_kept or math.min(head_kept, wait / 40))
