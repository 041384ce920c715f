-- Moves the tasks of due groups into aggregation sets, each of which becomes one task.
--
-- KEYS[1]  groups_due
-- KEYS[2]  groups
-- KEYS[3]  aggregation_sets
-- ARGV[1]  prefix of the group keys
-- ARGV[2]  name of the first set; the key of a set is the key of its group, a colon, this name and
--          three digits
-- ARGV[3]  seconds that a group waits after its newest task
-- ARGV[4]  maximum seconds that its oldest task waits; 0 = unlimited
-- ARGV[5]  maximum tasks of a set, which also makes a group due at once; 0 = unlimited
-- ARGV[6]  seconds until the sets expire
-- ARGV[7]  maximum number of groups to check, and of sets
-- RETURN   {milliseconds until the next check of a group or -1, then for each set: its group, its
--          key, its size}
-- BOUND    ARGV[7] groups, at most 100; 500 tasks moved, or one set; a group that becomes one set
--          is renamed
--
-- Scores are whole seconds, rounded down, so a wait of n seconds ends after n + 1 seconds.
-- include: clock

local now, us = clock()
local grace, delay, size = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local limit, budget = tonumber(ARGV[7]), 500
redis.call("SCARD", KEYS[2])
redis.call("ZCARD", KEYS[3])

-- score(group, rank) returns when the task at a rank was added.
local function score(group, rank)
  return tonumber(redis.call("ZRANGE", group, rank, rank, "WITHSCORES")[2])
end

local seen, gone, looks, sets = {}, {}, {}, {}
for _, name in ipairs(redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", now, "LIMIT", 0, limit)) do
  local group = ARGV[1] .. name
  local card = redis.pcall("ZCARD", group)
  local taken, look = 0, nil
  if type(card) == "table" then
    redis.call("EXISTS", group) -- raises if this node does not serve the group; see fields
    look = now + 60 -- a key of another type does not block other groups
    card = 0
  end
  local newest = card > 0 and score(group, -1)
  while taken < card and not look do
    local left = card - taken
    local at = newest + grace + 1
    if delay > 0 then
      at = math.min(at, score(group, taken) + delay + 1)
    end
    local n = left
    if size > 0 and left >= size then
      at, n = now, size
    end
    if at > now then
      look = at
    elseif #sets == limit or n < left and n > budget and budget < 500 then
      look = now
    else
      local set = { name, group .. ":" .. ARGV[2] .. string.format("%03d", #sets), n, group }
      if n < left then
        set[5] = redis.call("ZRANGE", group, taken, taken + n - 1, "WITHSCORES")
        budget = budget - n
      end
      sets[#sets + 1] = set
      taken = taken + n
    end
  end
  seen[#seen + 1] = name
  if look then
    looks[#looks + 1] = look
    looks[#looks + 1] = name
  else
    gone[#gone + 1] = name
  end
end

if #seen > 0 then
  redis.call("ZREM", KEYS[1], unpack(seen))
  for _, set in ipairs(sets) do
    local entries = set[5]
    if entries then
      for from = 1, #entries, 1000 do
        local ids, members = {}, {}
        for i = from, math.min(from + 999, #entries), 2 do
          ids[#ids + 1] = entries[i]
          members[#members + 1] = entries[i + 1]
          members[#members + 1] = entries[i]
        end
        redis.call("ZREM", set[4], unpack(ids))
        redis.call("ZADD", set[2], unpack(members))
      end
    else
      redis.call("RENAME", set[4], set[2])
    end
    redis.call("ZADD", KEYS[3], now + tonumber(ARGV[6]), set[2])
  end
  if #gone > 0 then
    redis.call("SREM", KEYS[2], unpack(gone))
  end
  if #looks > 0 then
    redis.call("ZADD", KEYS[1], unpack(looks))
    redis.call("EXPIRE", KEYS[1], 3600)
  end
end

local first = redis.call("ZRANGE", KEYS[1], 0, 0, "WITHSCORES")[2]
local reply = { -1 }
if first then
  reply[1] = math.max(0, math.ceil((tonumber(first) - now) * 1000 - us / 1000))
end
for _, set in ipairs(sets) do
  reply[#reply + 1] = set[1]
  reply[#reply + 1] = set[2]
  reply[#reply + 1] = set[3]
end
return reply
