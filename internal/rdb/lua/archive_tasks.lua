-- Puts tasks that nobody works on into the archive, and trims it.
--
-- KEYS[1]    pending
-- KEYS[2]    scheduled
-- KEYS[3]    retry
-- KEYS[4]    archived
-- KEYS[5]    groups
-- KEYS[6]    record of the sender's last call
-- KEYS[7..]  the task's hash, for each task
-- ARGV[1]    prefix of the group keys
-- ARGV[2]    number of the sender's call
-- ARGV[3]    the state that the IDs were found in; "" = any
-- ARGV[4]    and the group, if that is aggregating
-- ARGV[5]    prefix of the task keys, to delete what is trimmed
-- ARGV[6]    how many tasks the archive keeps
-- ARGV[7]    for how many seconds
-- ARGV[8..]  for each task: id
-- RETURN     for each task: OK, ALREADY (the call names it twice), GONE, LOST (not in this state), ACTIVE, STAGED, UNFIT (archived
--            already, or completed), LATER or BROKEN; STALE if a later call of the sender was executed
-- BOUND      500 tasks, and as many trimmed
--
-- IDs that are GONE or LOST are taken out of where they were found, as depart does.
-- include: codes fields clock locks purge archive answers change

local codes = answered(KEYS[6], ARGV[2], #KEYS - 6)
if codes then
  return codes
end
local q = {
  pending = KEYS[1], groups = KEYS[5], prefix = ARGV[1], n = #KEYS - 6, from = ARGV[3], group = ARGV[4],
  sets = { scheduled = KEYS[2], retry = KEYS[3] },
}
redis.call("ZCARD", KEYS[4])
redis.call("SCARD", KEYS[5])
local now = clock()
local out, strays, entries, seen = {}, {}, {}, {}
codes = {}
local a = 8
for k = 7, #KEYS do
  local id = ARGV[a]
  local code, at = locate(q, KEYS[k], id)
  if seen[id] then
    code = ALREADY
  elseif code == OK and (at.state == "archived" or at.state == "completed") then
    code = UNFIT
  end
  if code == OK then
    seen[id] = true
    out[#out + 1] = at
    entries[#entries + 1] = now
    entries[#entries + 1] = id
  elseif code == GONE or code == LOST then
    strays[#strays + 1] = id
  end
  codes[#codes + 1] = code
  a = a + 1
end
depart(q, out, strays)
if #out > 0 then
  redis.call("ZADD", KEYS[4], unpack(entries))
  for _, at in ipairs(out) do
    redis.call("HSET", at.task, "state", "archived")
    redis.call("HDEL", at.task, "pending_since")
  end
  trim(KEYS[4], ARGV[5], now, tonumber(ARGV[6]), tonumber(ARGV[7]), 500)
  remember(KEYS[6], ARGV[2], codes)
end
return codes
