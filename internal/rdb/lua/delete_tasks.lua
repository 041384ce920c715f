-- Deletes tasks that nobody works on, with their locks.
--
-- KEYS[1]    pending
-- KEYS[2]    scheduled
-- KEYS[3]    retry
-- KEYS[4]    archived
-- KEYS[5]    completed
-- KEYS[6]    groups
-- KEYS[7]    record of the sender's last call
-- KEYS[8..]  the task's hash, for each task
-- ARGV[1]    prefix of the group keys
-- ARGV[2]    number of the sender's call
-- ARGV[3]    the state that the IDs were found in; "" = any
-- ARGV[4]    and the group, if that is aggregating
-- ARGV[5]    key of the group or aggregation set that is to be emptied; "" = tasks in aggregation are left alone
-- ARGV[6..]  for each task: id
-- RETURN     for each task: OK, ALREADY (the call names it twice), GONE, LOST (not in this state), ACTIVE, STAGED, LATER or BROKEN;
--            STALE if a later call of the sender was executed
-- BOUND      500 tasks
--
-- IDs that are GONE or LOST are taken out of where they were found, as depart does. Without tasks it only takes the name of an empty
-- group away.
-- include: codes fields locks answers change

local codes = answered(KEYS[7], ARGV[2], #KEYS - 7)
if codes then
  return codes
end
local q = {
  pending = KEYS[1], groups = KEYS[6], prefix = ARGV[1], n = #KEYS - 7, from = ARGV[3], group = ARGV[4],
  set = ARGV[5] ~= "" and ARGV[5] or nil,
  sets = { scheduled = KEYS[2], retry = KEYS[3], archived = KEYS[4], completed = KEYS[5] },
}
redis.call("SCARD", KEYS[6])
local out, strays, doomed, seen = {}, {}, {}, {}
codes = {}
local a = 6
for k = 8, #KEYS do
  local id = ARGV[a]
  local code, at = locate(q, KEYS[k], id)
  if seen[id] then
    code = ALREADY
  end
  if code == OK then
    seen[id] = true
    out[#out + 1] = at
    doomed[#doomed + 1] = at.task
    if owns(at.lock, id) then
      doomed[#doomed + 1] = at.lock
    end
  elseif code == GONE or code == LOST then
    strays[#strays + 1] = id
  end
  codes[#codes + 1] = code
  a = a + 1
end
depart(q, out, strays)
if #doomed > 0 then
  redis.call("UNLINK", unpack(doomed))
  remember(KEYS[7], ARGV[2], codes)
end
return codes
