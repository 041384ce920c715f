-- Has tasks run that wait for their time or were set aside: those with a group go back into it, the others to pending. A task that
-- waits in a group goes to pending by itself.
--
-- KEYS[1]     pending
-- KEYS[2]     scheduled
-- KEYS[3]     retry
-- KEYS[4]     archived
-- KEYS[5]     completed
-- KEYS[6]     groups
-- KEYS[7]     groups_due
-- KEYS[8]     marker
-- KEYS[9]     record of the sender's last call
-- KEYS[10..]  the task's hash, for each task, the one to run first first
-- ARGV[1]     prefix of the group keys
-- ARGV[2]     number of the sender's call
-- ARGV[3]     the state that the IDs were found in; "" = any
-- ARGV[4]     and the group, if that is aggregating
-- ARGV[5..]   for each task: id
-- RETURN      for each task: OK, ALREADY (the call names it twice), GONE, LOST (not in this state), ACTIVE, STAGED, UNFIT (pending
--             already), LATER or BROKEN (its group's key is of another type); STALE if a later call of the sender was executed
-- BOUND       500 tasks
--
-- IDs that are GONE or LOST are taken out of where they were found, as depart does.
-- include: codes fields clock mark gather answers change

local codes = answered(KEYS[9], ARGV[2], #KEYS - 9)
if codes then
  return codes
end
local q = {
  groups = KEYS[6], prefix = ARGV[1], n = #KEYS - 9, from = ARGV[3], group = ARGV[4],
  sets = { scheduled = KEYS[2], retry = KEYS[3], archived = KEYS[4], completed = KEYS[5] },
}
redis.call("LLEN", KEYS[1])
redis.call("SCARD", KEYS[6])
redis.call("ZCARD", KEYS[7])
local now, us = clock()
local now_ns = nanoseconds(now, us)
local out, strays, ready, seen = {}, {}, {}, {}
codes = {}
local a = 5
for k = 10, #KEYS do
  local id = ARGV[a]
  local code, at = locate(q, KEYS[k], id)
  if seen[id] then
    code = ALREADY
  elseif code == OK and at.state == "pending" then
    code = UNFIT
  elseif code == OK and at.state ~= "aggregating" and at.group ~= "" then
    if type(redis.pcall("ZCARD", ARGV[1] .. at.group)) == "number" then
      at.regroup = true
    else
      redis.call("EXISTS", ARGV[1] .. at.group)
      code = BROKEN
    end
  elseif code == OK then
    ready[#ready + 1] = id
  end
  if code == OK then
    seen[id] = true
    out[#out + 1] = at
  elseif code == GONE or code == LOST then
    strays[#strays + 1] = id
  end
  codes[#codes + 1] = code
  a = a + 1
end
depart(q, out, strays)
local grouped = {}
for _, at in ipairs(out) do
  if at.regroup then
    redis.call("HSET", at.task, "state", "aggregating")
    grouped[#grouped + 1] = { ARGV[1] .. at.group, at.group, at.id }
  else
    redis.call("HSET", at.task, "state", "pending", "pending_since", now_ns)
  end
end
gather(KEYS[6], KEYS[7], grouped, now)
if #ready > 0 then
  redis.call("LPUSH", KEYS[1], unpack(ready))
  mark(KEYS[8])
end
if #out > 0 then
  remember(KEYS[9], ARGV[2], codes)
end
return codes
