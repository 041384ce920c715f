-- Commits aggregations: creates the aggregated tasks and deletes the tasks of their sets.
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
-- ARGV[3]    TTL of consumed sets in seconds
-- ARGV[4..]  for each set: id, msg, lock ("" = not unique), TTL of the lock in seconds, time to
--            process in unix seconds (0 = now), group to enter when due ("" = none)
-- RETURN     for each set: OK, CONFLICT, DUPLICATE, or LOST if the caller no longer owns the set:
--            its tasks were committed, or are back in their group
-- BOUND      sets of 500 tasks in total, or a larger one, which becomes a consumed set; see
--            purge.lua
--
-- The first write is ZREM, which is allowed at maxmemory.
-- include: codes fields clock mark gather locks create purge place

redis.call("LLEN", KEYS[3])
redis.call("ZCARD", KEYS[5])
redis.call("SCARD", KEYS[6])
redis.call("ZCARD", KEYS[7])
local now, us = clock()
local codes, toDelete, made = {}, {}, {}
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
      -- The lock belongs to a task of the set, so only the ID remains to be checked.
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
    toDelete[i] = n <= 500 and deletable(ARGV[1], redis.call("ZRANGE", KEYS[k], 0, -1), "aggregating")
  end
end

local new = {}
i = 0
for k = 8, #KEYS, 2 do
  i = i + 1
  local a = 6 * i - 2
  if codes[i] == OK then
    redis.call("ZREM", KEYS[1], KEYS[k])
    if toDelete[i] then
      redis.call("DEL", KEYS[k], unpack(toDelete[i]))
    else
      redis.call("ZADD", KEYS[2], now, KEYS[k])
      redis.call("EXPIRE", KEYS[2], ARGV[3])
      redis.call("EXPIRE", KEYS[k], ARGV[3])
    end
    new[#new + 1] = {
      task = KEYS[k + 1], id = ARGV[a], msg = ARGV[a + 1], lock = ARGV[a + 2], ttl = ARGV[a + 3], at = ARGV[a + 4],
      group = ARGV[a + 5],
    }
  end
end
place(new, KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], ARGV[2], now, us)
return codes
