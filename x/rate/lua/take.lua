-- Takes tokens from a bucket, or returns when there will be enough.
--
-- KEYS[1]  bucket
-- ARGV[1]  tokens to take
-- ARGV[2]  units added per microsecond
-- ARGV[3]  units per token
-- ARGV[4]  tokens in a full bucket
-- ARGV[5]  1 if a rejected caller gets a place in the line, else 0
-- RETURN   {1 if they were taken, else 0; whole tokens left; microseconds until there are enough;
--          microseconds until the caller's turn}
-- BOUND    one bucket
--
-- All amounts are whole numbers below 2^52 units, which are exact in Lua. The bucket is a text of
-- four numbers: its level, the time of that level, the units per token at that time, and the end of
-- the line: the turn of the last rejected caller. A missing bucket is full, so the key expires when
-- the bucket is full and the line has ended.
-- PEXPIRE comes first: it is allowed when Redis is full, and after it SET is.

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
    -- The clock went back: continue from now with the stored level.
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
