-- Moves due tasks from scheduled or retry to pending, or to their group.
--
-- KEYS[1]  scheduled or retry
-- KEYS[2]  pending
-- KEYS[3]  groups
-- KEYS[4]  groups_due
-- KEYS[5]  marker
-- ARGV[1]  prefix of the task keys
-- ARGV[2]  prefix of the group keys
-- ARGV[3]  state of the tasks in KEYS[1]
-- ARGV[4]  maximum number of tasks
-- ARGV[5]  1 to move them to the front of pending, the one due first in front, else 0
-- RETURN   {entries removed, IDs dropped because no task in that state has them, milliseconds until
--          the next one is due or -1}
-- BOUND    ARGV[4], at most 500
--
-- The first write is ZREM, which is allowed at maxmemory.
-- include: fields clock mark gather

redis.call("LLEN", KEYS[2])
redis.call("SCARD", KEYS[3])
redis.call("ZCARD", KEYS[4])
local now, us = clock()
local now_ns = nanoseconds(now, us)
local ids = redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", string.format("%d.%06d", now, us), "LIMIT", 0, ARGV[4])
local nxt = redis.call("ZRANGE", KEYS[1], #ids, #ids, "WITHSCORES")
local ready, grouped, postponed = {}, {}, {}
for _, id in ipairs(ids) do
  local f = fields(ARGV[1] .. id, "state", "group")
  if f[1] ~= ARGV[3] then
    -- No task in this state has the ID: drop it.
  elseif not f[2] or f[2] == "" then
    ready[#ready + 1] = id
  elseif type(redis.pcall("ZCARD", ARGV[2] .. f[2])) == "number" then
    grouped[#grouped + 1] = { ARGV[2] .. f[2], f[2], id }
  else
    -- The group's key is of another type: retry the task in a minute, and do not block others.
    postponed[#postponed + 1] = now + 60
    postponed[#postponed + 1] = id
  end
end
if #ids > 0 then
  redis.call("ZREM", KEYS[1], unpack(ids))
  for _, g in ipairs(grouped) do
    redis.call("HSET", ARGV[1] .. g[3], "state", "aggregating")
  end
  gather(KEYS[3], KEYS[4], grouped, now)
  for _, id in ipairs(ready) do
    redis.call("HSET", ARGV[1] .. id, "state", "pending", "pending_since", now_ns)
  end
  if #ready > 0 then
    if ARGV[5] == "1" then
      local back = {}
      for i = #ready, 1, -1 do
        back[#back + 1] = ready[i]
      end
      redis.call("RPUSH", KEYS[2], unpack(back))
    else
      redis.call("LPUSH", KEYS[2], unpack(ready))
    end
    mark(KEYS[5])
  end
  if #postponed > 0 then
    redis.call("ZADD", KEYS[1], unpack(postponed))
  end
end
local dropped = #ids - #ready - #grouped - #postponed / 2
local wait = -1
if #nxt > 0 then
  -- Less half a microsecond: a score with milliseconds is not exact.
  wait = math.max(0, math.ceil((tonumber(nxt[2]) - now) * 1000 - us / 1000 - 0.0005))
end
return { #ids, dropped, wait }
