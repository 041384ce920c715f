-- Runs, archives, deletes or reschedules tasks in any state but active.
--
-- run         moves tasks that are scheduled, in retry, archived or completed to pending, or to
--             their group if they have one, and tasks that wait in a group to pending
-- archive     archives tasks, and trims the archive
-- delete      deletes tasks, with their locks
-- reschedule  changes the time of tasks in retry; all others become scheduled
--
-- KEYS[1]    pending
-- KEYS[2]    scheduled
-- KEYS[3]    retry
-- KEYS[4]    archived
-- KEYS[5]    completed
-- KEYS[6]    groups
-- KEYS[7]    groups_due
-- KEYS[8]    marker
-- KEYS[9]    idempotency record
-- KEYS[10]   partitions:held
-- KEYS[11..] the task's hash, for each task, in order of execution
-- ARGV[1]    run, archive, delete or reschedule
-- ARGV[2]    number of the call
-- ARGV[3]    prefix of the task keys
-- ARGV[4]    prefix of the group keys
-- ARGV[5]    state of the collection that held the IDs; "" = any
-- ARGV[6]    its group, if the state is aggregating
-- ARGV[7]    reschedule: the time in unix seconds
-- ARGV[8]    archive: maximum number of archived tasks
-- ARGV[9]    archive: maximum age of archived tasks in seconds
-- RETURN     for each task: OK, ALREADY (listed twice in the call), GONE, LOST (not in this state),
--            ACTIVE, STAGED, UNFIT (run: pending already; archive: archived already), LATER or
--            BROKEN (a key of its group is of another type); STALE if a later call with the record
--            has run. Then the number of tasks deleted because the archive was full, as two base-36
--            digits, so that the record can store them
-- BOUND      500 tasks, and as many trimmed
--
-- IDs that are GONE or LOST are removed from the collection in which they were found; see detach.
-- include: codes fields clock mark gather locks purge archive record change

local codes = load(KEYS[9], ARGV[2], #KEYS - 10 + 2)
if codes then
  return codes
end
local verb, now, us = ARGV[1], clock()
local q = {
  pending = KEYS[1], groups = KEYS[6], prefix = ARGV[4], held = KEYS[10], n = #KEYS - 10, from = ARGV[5], group = ARGV[6],
  sets = { scheduled = KEYS[2], retry = KEYS[3], archived = KEYS[4], completed = KEYS[5] },
  unfit = verb == "run" and "pending" or verb == "archive" and "archived",
}
redis.call("SCARD", KEYS[6])
if verb == "run" then
  redis.call("LLEN", KEYS[1])
  redis.call("ZCARD", KEYS[7])
elseif verb ~= "delete" then
  redis.call("ZCARD", verb == "archive" and KEYS[4] or KEYS[2])
end

local out, orphans, seen = {}, {}, {}
codes = {}
for k = 11, #KEYS do
  local id = string.sub(KEYS[k], #ARGV[3] + 1)
  local code, at = locate(q, KEYS[k], id)
  if seen[id] then
    code = ALREADY
  elseif code == OK and verb == "run" and at.state ~= "aggregating" and at.group ~= "" then
    at.regroup = true
    if type(redis.pcall("ZCARD", ARGV[4] .. at.group)) ~= "number" then
      redis.call("EXISTS", ARGV[4] .. at.group) -- raises if this node does not serve the key
      code = BROKEN
    end
  end
  if code == OK then
    seen[id] = true
    out[#out + 1] = at
    at.owned = verb == "delete" and owns(at.lock, id)
  elseif code == GONE or code == LOST then
    orphans[#orphans + 1] = id
  end
  codes[#codes + 1] = code
end
detach(q, out, orphans)

-- Each verb is called with at least one task, which is in no collection any more.
local does = {}

function does.run()
  local now_ns, grouped, ready = nanoseconds(now, us), {}, {}
  for _, at in ipairs(out) do
    if at.regroup then
      redis.call("HSET", at.task, "state", "aggregating")
      grouped[#grouped + 1] = { ARGV[4] .. at.group, at.group, at.id }
    else
      redis.call("HSET", at.task, "state", "pending", "pending_since", now_ns)
      ready[#ready + 1] = at.id
    end
  end
  gather(KEYS[6], KEYS[7], grouped, now)
  if #ready > 0 then
    redis.call("LPUSH", KEYS[1], unpack(ready))
    mark(KEYS[8])
  end
end

-- enter adds the tasks to a sorted set.
local function enter(set, state, score, tasks)
  local entries = {}
  for _, at in ipairs(tasks) do
    entries[#entries + 1] = score
    entries[#entries + 1] = at.id
  end
  redis.call("ZADD", set, unpack(entries))
  for _, at in ipairs(tasks) do
    if at.state ~= state then
      redis.call("HSET", at.task, "state", state)
      redis.call("HDEL", at.task, "pending_since")
    end
  end
end

function does.archive()
  enter(KEYS[4], "archived", now, out)
  local _, discarded = trim(KEYS[4], ARGV[3], now, tonumber(ARGV[8]), tonumber(ARGV[9]), 500)
  return discarded
end

function does.delete()
  local toDelete = {}
  for _, at in ipairs(out) do
    toDelete[#toDelete + 1] = at.task
    if at.owned then
      toDelete[#toDelete + 1] = at.lock
    end
  end
  redis.call("UNLINK", unpack(toDelete))
end

function does.reschedule()
  local to = { scheduled = {}, retry = {} }
  for _, at in ipairs(out) do
    table.insert(to[at.state] or to.scheduled, at)
  end
  for state, tasks in pairs(to) do
    if #tasks > 0 then
      enter(q.sets[state], state, ARGV[7], tasks)
      -- If a task is now the first one due, the server that wakes up recomputes how long it sleeps.
      if seen[redis.call("ZRANGE", q.sets[state], 0, 0)[1]] then
        mark(KEYS[8])
      end
    end
  end
end

local discarded = #out > 0 and does[verb]() or 0
-- Servers compare the parts of flows with their members soon.
local checked = {}
for _, at in ipairs(out) do
  local part = at.part and string.sub(ARGV[3], 1, -3) .. "flows:part:" .. at.part
  if part and not checked[part] and redis.call("EXISTS", part) == 1 then
    checked[part] = true
    redis.call("HSET", part, "check", 0)
    redis.call("ZADD", string.sub(ARGV[3], 1, -3) .. "flows:due", now, at.part)
  end
end
codes[#codes + 1], codes[#codes + 2] = math.floor(discarded / 36), discarded % 36
if #out > 0 then
  store(KEYS[9], ARGV[2], codes)
end
return codes
