-- Adds what a server has counted in one hour to the statistics of a queue, and the sizes of the
-- queue.
--
-- KEYS[1]   statistics of minutes
-- KEYS[2]   statistics of hours
-- KEYS[3]   errors of minutes
-- KEYS[4]   errors of hours
-- KEYS[5]   pending
-- KEYS[6]   active
-- KEYS[7]   scheduled
-- KEYS[8]   retry
-- KEYS[9]   archived
-- KEYS[10]  completed
-- KEYS[11]  groups
-- KEYS[12]  aggregation_sets
-- KEYS[13]  processed, total
-- ARGV[1]   field of the sender in KEYS[1]
-- ARGV[2]   number of the call, which ascends for each sender
-- ARGV[3]   hour of the day
-- ARGV[4]   TTL of KEYS[1] and KEYS[3] in seconds
-- ARGV[5]   TTL of KEYS[2] and KEYS[4] in seconds
-- ARGV[6]   maximum number of fields of KEYS[1] and KEYS[3]
-- ARGV[7]   maximum number of fields of KEYS[2] and KEYS[4]
-- ARGV[8]   the minute since 1970 to store the sizes of; "" = none
-- ARGV[9]   prefix of the task keys
-- ARGV[10]  prefix of the group keys
-- ARGV[11..] for each entry: minute of the hour, table, name, value
-- RETURN    {OK, ALREADY or GONE (there is no such queue), unix milliseconds now}
-- BOUND     300 entries; 100 groups
--
-- The tables: "queue" and "type", whose value are tokens; "error", with a kind and a type as its
-- name, and a number; "text", with a kind and its text.
--
-- The values of statistics are tokens, name=number, separated by spaces or semicolons. Those of a
-- name are added, or, if it is in upper case, the largest counts. A text of a few calls is only
-- joined: to add up its tokens costs ten times as much. That of a period that is over is added up,
-- because it is kept for days.
--
-- Each call that has been executed leaves its number, in the hash of its hour, so that a repeated
-- one does nothing. That is the first write: at maxmemory, the whole call is refused.
-- include: codes fields clock

local now, us = clock()
local now_ms = now * 1000 + math.floor(us / 1000)
if tonumber(redis.call("HGET", KEYS[1], ARGV[1]) or 0) >= tonumber(ARGV[2]) then
  return { ALREADY, now_ms }
end
if redis.call("EXISTS", KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13]) == 0 then
  return { GONE, now_ms }
end
local stats, errors = { KEYS[1], KEYS[2] }, { KEYS[3], KEYS[4] }
local free, ttls = {}, {} -- how many fields may be added
for i = 1, 2 do
  for _, key in ipairs({ stats[i], errors[i] }) do -- an error for a key of another type comes before the first write
    free[key] = tonumber(i == 1 and ARGV[6] or ARGV[7]) - redis.call("HLEN", key)
    ttls[key] = i == 1 and ARGV[4] or ARGV[5]
  end
end

-- sum(text) adds up the tokens of each name.
local function sum(text)
  local names, sums = {}, {}
  for name, number in string.gmatch(text, "(%a%d*)=(%d+)") do
    local n, s = tonumber(number), sums[name]
    if not s then
      names[#names + 1] = name
      sums[name] = n
    elseif string.find(name, "%u") then
      sums[name] = math.max(s, n)
    else
      sums[name] = s + n
    end
  end
  for i, name in ipairs(names) do
    names[i] = name .. "=" .. string.format("%.0f", sums[name])
  end
  return table.concat(names, " ")
end

-- room(key, field, other) returns the field to count at, and its value: the other one if there are
-- too many fields.
local function room(key, field, other)
  local old = redis.call("HGET", key, field)
  if not old and free[key] <= 0 then
    field, old = other, redis.call("HGET", key, other)
  end
  if not old then
    free[key] = free[key] - 1
  end
  return field, old
end

-- add(key, field, other, text, over) adds tokens. over is whether few more will come.
local function add(key, field, other, text, over)
  local old
  field, old = room(key, field, other)
  if old then
    text = old .. ";" .. text
    local _, joined = string.gsub(text, ";", ";")
    if over or joined >= 4 then
      text = sum(text)
    end
  end
  redis.call("HSET", key, field, text)
end

-- sizes() returns the tokens of the sizes of the queue.
local function sizes()
  local waiting, grouped = redis.call("LLEN", KEYS[5]), 0
  if redis.call("SCARD", KEYS[11]) <= 100 then
    for _, name in ipairs(redis.call("SMEMBERS", KEYS[11])) do
      local n = redis.pcall("ZCARD", ARGV[10] .. name)
      grouped = grouped + (type(n) == "number" and n or 0)
    end
  end
  local oldest = 0
  if waiting > 0 then
    local since = tonumber(fields(ARGV[9] .. redis.call("LINDEX", KEYS[5], -1), "pending_since")[1] or "")
    oldest = since and math.max(now_ms - math.floor(since / 1e6), 0) or 0
  end
  return string.format("P=%d A=%d S=%d R=%d X=%d C=%d G=%d O=%.0f", waiting, redis.call("LLEN", KEYS[6]),
    redis.call("ZCARD", KEYS[7]), redis.call("ZCARD", KEYS[8]), redis.call("ZCARD", KEYS[9]), redis.call("ZCARD", KEYS[10]),
    grouped, oldest)
end

local at, text = tonumber(ARGV[8]), nil
if at and math.abs(at - math.floor(now / 60)) <= 1 then
  at = string.format("%d", at % 60)
  if not string.find(redis.call("HGET", KEYS[1], at) or "", "P=", 1, true) then
    text = sizes()
  end
end
if #ARGV == 10 and not text then
  return { OK, now_ms } -- another server has stored the sizes
end

redis.call("HSET", KEYS[1], ARGV[1], ARGV[2])
if text then
  add(stats[1], at, at, text)
  add(stats[2], ARGV[3], ARGV[3], text)
end
local current = { math.floor(now / 60) % 60, math.floor(now / 3600) % 24 }
local a = 11
while ARGV[a] do
  local of, name, value = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3]
  for i, time in ipairs({ ARGV[a], ARGV[3] }) do
    local over = tonumber(time) ~= current[i]
    if of == "queue" then
      add(stats[i], time, time, value, over)
    elseif of == "type" then
      add(stats[i], time .. ":" .. name, time .. ":", value, over)
    elseif of == "error" then
      redis.pcall("HINCRBY", errors[i], (room(errors[i], time .. ":" .. name, time .. "::")), value)
    else
      free[errors[i]] = free[errors[i]] - redis.call("HSETNX", errors[i], "#" .. name, value)
    end
  end
  a = a + 4
end
for key, ttl in pairs(ttls) do
  redis.call("EXPIRE", key, ttl)
end
return { OK, now_ms }
