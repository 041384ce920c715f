-- Gives tasks that nobody works on another time. Those that wait for a retry go on doing so; all others are scheduled then.
--
-- KEYS[1]    pending
-- KEYS[2]    scheduled
-- KEYS[3]    retry
-- KEYS[4]    archived
-- KEYS[5]    completed
-- KEYS[6]    groups
-- KEYS[7]    marker
-- KEYS[8]    record of the sender's last call
-- KEYS[9..]  the task's hash, for each task
-- ARGV[1]    prefix of the group keys
-- ARGV[2]    number of the sender's call
-- ARGV[3]    the time in unix seconds
-- ARGV[4..]  for each task: id
-- RETURN     for each task: OK, ALREADY (the call names it twice), GONE, ACTIVE, STAGED, LATER or BROKEN; STALE if a later call
--            of the sender was executed
-- BOUND      500 tasks
--
-- A task that is now the first one due leaves the marker: the server that it wakes looks again how long it may sleep.
-- include: codes fields mark answers change

local codes = answered(KEYS[8], ARGV[2], #KEYS - 8)
if codes then
  return codes
end
local q = {
  pending = KEYS[1], groups = KEYS[6], prefix = ARGV[1], n = #KEYS - 8, from = "", group = "",
  sets = { scheduled = KEYS[2], retry = KEYS[3], archived = KEYS[4], completed = KEYS[5] },
}
redis.call("ZCARD", KEYS[2])
redis.call("SCARD", KEYS[6])
local out, entries, new = {}, {}, {}
codes = {}
local a = 4
for k = 9, #KEYS do
  local id = ARGV[a]
  local code, at = locate(q, KEYS[k], id)
  if new[id] then
    code = ALREADY
  end
  if code == OK then
    new[id] = true
    out[#out + 1] = at
    local to = at.state == "retry" and KEYS[3] or KEYS[2]
    entries[to] = entries[to] or {}
    table.insert(entries[to], ARGV[3])
    table.insert(entries[to], id)
  end
  codes[#codes + 1] = code
  a = a + 1
end
depart(q, out, {})
for _, at in ipairs(out) do
  if at.state ~= "retry" then
    redis.call("HSET", at.task, "state", "scheduled")
    redis.call("HDEL", at.task, "pending_since")
  end
end
for to, values in pairs(entries) do
  redis.call("ZADD", to, unpack(values))
  if new[redis.call("ZRANGE", to, 0, 0)[1]] then
    mark(KEYS[7])
  end
end
if #out > 0 then
  remember(KEYS[8], ARGV[2], codes)
end
return codes
