-- Read what clients announce about themselves and about one hold each.
--
-- KEYS[n]  announcement
-- ARGV[n]  field of the hold in it; ARGV[1] is that of KEYS[1]
--
-- Returns  {now, {value, ...}, ...}: the server's time in ms, and for each key
--          the values of app, host, pid, version, library, since, seen and the
--          hold, each nothing where it is missing or longer than 4096 bytes
--
-- Repeat   safe: reads only
local time = redis.call('time')
local found = {time[1] * 1000 + math.floor(time[2] / 1000)}

-- What is no hash announces nothing. Another error is one of the script. What
-- others wrote there may be of any size; of ours, a note of 200 characters is the
-- longest.
local function read(key, field)
  local length = redis.pcall('hstrlen', key, field)
  if type(length) ~= 'table' then
    return length <= 4096 and redis.call('hget', key, field)
  end
  return not string.find(length.err, 'WRONGTYPE', 1, true) and redis.call('hget', key, field)
end

local fields = {'app', 'host', 'pid', 'version', 'library', 'since', 'seen'}
for n, key in ipairs(KEYS) do
  local values = {}
  for at, field in ipairs(fields) do
    values[at] = read(key, field)
  end
  values[#fields + 1] = read(key, ARGV[n])
  found[n + 1] = values
end
return found
