-- Makes the tasks that sets of tasks were aggregated into, and deletes what they were made of.
--
-- KEYS[1]    aggregation_sets
-- KEYS[2]    spent_sets
-- KEYS[3]    pending
-- KEYS[4]    marker
-- KEYS[5]    scheduled
-- KEYS[6]    groups
-- KEYS[7]    groups_due
-- KEYS[8..]  for each set: the set, the new task's hash
-- ARGV[1]    prefix of the task keys
-- ARGV[2]    prefix of the group keys
-- ARGV[3]    TTL of spent sets in seconds
-- ARGV[4..]  for each set: id, msg, lock ("" = not unique), TTL of the lock in seconds, time to process in unix seconds (0 = at once),
--            name of the group to wait in from then on ("" = none)
-- RETURN     for each set: OK, CONFLICT, DUPLICATE, or LOST if the set is nobody's any more: its tasks were handed over, or are back
--            in their group
-- BOUND      sets of 500 tasks in all, or a larger one, which becomes a spent set; see purge_spent
--
-- The first write is ZREM, which works when Redis is full.
-- include: codes fields clock mark gather locks create purge

redis.call("LLEN", KEYS[3])
redis.call("ZCARD", KEYS[5])
redis.call("SCARD", KEYS[6])
redis.call("ZCARD", KEYS[7])
local now, us = clock()
local now_ns = nanoseconds(now, us)
local codes, doomed, made = {}, {}, {}
local i = 0
for k = 8, #KEYS, 2 do
  i = i + 1
  local a = 6 * i - 2
  local id, lock = ARGV[a], ARGV[a + 2]
  if not redis.call("ZSCORE", KEYS[1], KEYS[k]) then
    codes[i] = LOST
  else
    codes[i] = creatable(KEYS[k + 1], id, lock, ARGV[1], made)
    local holder = codes[i] == DUPLICATE and redis.pcall("GET", lock)
    if type(holder) == "string" and redis.call("ZSCORE", KEYS[k], holder) and not made[lock] then
      -- The lock goes with the task that it is aggregated from. So the ID is what is left to ask for.
      codes[i] = CONFLICT
      if not made[KEYS[k + 1]] and redis.call("EXISTS", KEYS[k + 1]) == 0 then
        made[KEYS[k + 1]], made[lock] = true, id
        codes[i] = OK
      end
    end
  end
  if codes[i] == OK then
    local n = redis.call("ZCARD", KEYS[k])
    if ARGV[a + 5] ~= "" then
      redis.call("ZCARD", ARGV[2] .. ARGV[a + 5])
    end
    doomed[i] = n <= 500 and condemned(ARGV[1], redis.call("ZRANGE", KEYS[k], 0, -1), "aggregating")
  end
end

local pending, scheduled, grouped = {}, {}, {}
i = 0
for k = 8, #KEYS, 2 do
  i = i + 1
  local a = 6 * i - 2
  if codes[i] == OK then
    redis.call("ZREM", KEYS[1], KEYS[k])
    if doomed[i] then
      redis.call("DEL", KEYS[k], unpack(doomed[i]))
    else
      redis.call("ZADD", KEYS[2], now, KEYS[k])
      redis.call("EXPIRE", KEYS[2], ARGV[3])
      redis.call("EXPIRE", KEYS[k], ARGV[3])
    end
    local id, group = ARGV[a], ARGV[a + 5]
    local named = group ~= "" and "group"
    local function make(state)
      create(KEYS[k + 1], id, ARGV[a + 1], state, ARGV[a + 2], ARGV[a + 3], named, group)
    end
    if ARGV[a + 4] ~= "0" then
      make("scheduled")
      scheduled[#scheduled + 1] = ARGV[a + 4]
      scheduled[#scheduled + 1] = id
    elseif named then
      make("aggregating")
      grouped[#grouped + 1] = { ARGV[2] .. group, group, id }
    else
      make("pending")
      redis.call("HSET", KEYS[k + 1], "pending_since", now_ns)
      pending[#pending + 1] = id
    end
  end
end
if #pending > 0 then
  redis.call("LPUSH", KEYS[3], unpack(pending))
end
if #scheduled > 0 then
  redis.call("ZADD", KEYS[5], unpack(scheduled))
end
if #pending + #scheduled > 0 then
  mark(KEYS[4])
end
gather(KEYS[6], KEYS[7], grouped, now)
return codes
