-- Returns the tasks of aggregation sets to their groups, with their original scores. A task that a
-- follower has replaced is deleted; see lib/replaced.lua.
--
-- KEYS[1]    aggregation_sets
-- KEYS[2]    groups
-- KEYS[3]    groups_due
-- KEYS[4..]  for each set: the set, its group, the set's next key
-- ARGV[1]    1 if the caller owns the sets; else only expired sets are returned
-- ARGV[2]    prefix of the task keys
-- ARGV[3..]  the group's name, for each set
-- RETURN     for each set: tasks left in it, or -1 if it has not expired
-- BOUND      500 tasks in total
--
-- A set that is not emptied in one call gets a new key, so its owner cannot commit tasks that are
-- partly back in the group.
-- include: fields clock replaced

redis.call("SCARD", KEYS[2])
redis.call("ZCARD", KEYS[3])
local now, us = clock()
local now_ms = now * 1000 + math.floor(us / 1000)
local left, moves, budget = {}, {}, 500
local relocks, deleted, unfollowed = {}, {}, {}
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
      local m = { set = KEYS[k], group = KEYS[k + 1], fresh = KEYS[k + 2], name = ARGV[i + 2], left = left[i], ids = {}, entries = {} }
      local page = take > 0 and redis.call("ZRANGE", KEYS[k], 0, take - 1, "WITHSCORES") or {}
      for e = 1, #page, 2 do
        local id, task = page[e], ARGV[2] .. page[e]
        local f = fields(task, "state", "followed", "unique_key")
        local follows = f[1] == "aggregating" and f[2] and f[3]
        m.ids[#m.ids + 1] = id
        if follows and replaced(id, f[3], f[2], ARGV[2], now_ms, relocks) then
          deleted[#deleted + 1] = task
        else
          m.entries[#m.entries + 1] = page[e + 1]
          m.entries[#m.entries + 1] = id
          if follows then
            unfollowed[#unfollowed + 1] = task
          end
        end
      end
      moves[#moves + 1] = m
    end
  end
end
for _, m in ipairs(moves) do
  redis.call("ZREM", KEYS[1], m.set)
  if #m.ids > 0 then
    redis.call("ZREM", m.set, unpack(m.ids))
  end
  if #m.entries > 0 then
    redis.call("ZADD", m.group, unpack(m.entries))
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
if #deleted > 0 then
  redis.call("DEL", unpack(deleted))
end
for _, task in ipairs(unfollowed) do
  redis.call("HDEL", task, "followed")
end
relock(relocks)
return left
