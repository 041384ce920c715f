-- Returns the tasks of aggregation sets to their groups, with their original scores.
--
-- KEYS[1]    aggregation_sets
-- KEYS[2]    groups
-- KEYS[3]    groups_due
-- KEYS[4..]  for each set: the set, its group, the set's next key
-- ARGV[1]    1 if the caller owns the sets; else only expired sets are returned
-- ARGV[2..]  the group's name, for each set
-- RETURN     for each set: tasks left in it, or -1 if it has not expired
-- BOUND      500 tasks in total
--
-- A set that is not emptied in one call gets a new key, so its owner cannot commit tasks that are
-- partly back in the group.
-- include: clock

redis.call("SCARD", KEYS[2])
redis.call("ZCARD", KEYS[3])
local now = clock()
local left, moves, budget = {}, {}, 500
local i = 0
for k = 4, #KEYS, 3 do
  i = i + 1
  local at = tonumber(redis.call("ZSCORE", KEYS[1], KEYS[k]) or -1)
  if at < 0 then
    left[i] = 0
  elseif ARGV[1] ~= "1" and at > now then
    left[i] = -1
  else
    local n = redis.call("ZCARD", KEYS[k])
    redis.call("ZCARD", KEYS[k + 1])
    local take = math.min(n, budget)
    budget = budget - take
    left[i] = n - take
    if take > 0 or n == 0 then
      moves[#moves + 1] = {
        set = KEYS[k], group = KEYS[k + 1], fresh = KEYS[k + 2], name = ARGV[i + 1], left = left[i],
        tasks = take > 0 and redis.call("ZRANGE", KEYS[k], 0, take - 1, "WITHSCORES") or {},
      }
    end
  end
end
for _, m in ipairs(moves) do
  local ids, entries = {}, {}
  for e = 1, #m.tasks, 2 do
    ids[#ids + 1] = m.tasks[e]
    entries[#entries + 1] = m.tasks[e + 1]
    entries[#entries + 1] = m.tasks[e]
  end
  redis.call("ZREM", KEYS[1], m.set)
  if #ids > 0 then
    redis.call("ZREM", m.set, unpack(ids))
    redis.call("ZADD", m.group, unpack(entries))
    redis.call("SADD", KEYS[2], m.name)
    redis.call("ZADD", KEYS[3], now, m.name)
  end
  if m.left > 0 then
    redis.call("RENAME", m.set, m.fresh)
    redis.call("ZADD", KEYS[1], now, m.fresh)
  end
end
if #moves > 0 then
  redis.call("EXPIRE", KEYS[3], 3600)
end
return left
