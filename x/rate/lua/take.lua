-- Takes tokens out of a bucket, or tells when they will be there.
--
-- KEYS[1]  bucket
-- ARGV[1]  how many tokens to take
-- ARGV[2]  units that come into the bucket in a microsecond
-- ARGV[3]  units that make a token
-- ARGV[4]  tokens in a full bucket
-- ARGV[5]  1 if who is refused comes back in its turn, else 0
-- RETURN   {1 if they were taken, else 0, whole tokens left, microseconds until there are enough, microseconds until the caller's turn}
-- BOUND    one bucket
--
-- All amounts are whole numbers below 2^52 units, which Lua's numbers hold exactly. The bucket is a text of four: its level, when
-- that was, the units of a token then, and the end of the line: when the last one that was refused is to come back. A bucket that is
-- not there is full, so the key expires when the bucket is full and the line at its end.
-- PEXPIRE comes first: it works when Redis is full, and then SET does.

local time = redis.call("TIME")
local now = tonumber(time[1]) * 1e6 + tonumber(time[2])
local refill, size = tonumber(ARGV[2]), tonumber(ARGV[3])
local need, full = tonumber(ARGV[1]) * size, tonumber(ARGV[4]) * size

local level, line, changed = full, now, false
local l, at, s, e = string.match(redis.call("GET", KEYS[1]) or "", "^(%d+) (%d+) ([1-9]%d*) (%d+)$")
if l then
  level, at, line = tonumber(l), tonumber(at), tonumber(e)
  if tonumber(s) ~= size then
    level = math.floor(level / tonumber(s) * size)
  end
  if at > now then
    -- The clock was set back: go on from here, with what there is.
    line, at, changed = line - (at - now), now, true
  end
  level = math.min(full, level + (now - at) * refill)
  line = math.max(line, now)
end

local taken, wait, turn = 0, 0, 0
if level >= need then
  taken, level, changed = 1, level - need, true
else
  wait = math.ceil((need - level) / refill)
  turn = wait
  if ARGV[5] == "1" then
    if line > now then
      turn = math.max(wait, math.min(line - now + math.ceil(need / refill), 3600e6))
    end
    line, changed = now + turn, true
  end
end
if changed then
  local keep = math.max((full - level) / refill, line - now)
  local ms = string.format("%.0f", math.ceil(keep / 1e3) + 1e3)
  redis.call("PEXPIRE", KEYS[1], ms)
  redis.call("SET", KEYS[1], string.format("%.0f %.0f %.0f %.0f", level, now, size, line), "PX", ms)
end
return { taken, math.floor(level / size), wait, turn }
