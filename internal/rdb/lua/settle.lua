-- Settles attempts with any outcome: from their holders, or from a recovery of tasks whose lease
-- has expired. done.lua is the short form for tasks that succeeded and are not retained.
--
-- KEYS[1]    active
-- KEYS[2]    lease
-- KEYS[3]    processed, total
-- KEYS[4]    processed, today
-- KEYS[5]    failed, total
-- KEYS[6]    failed, today
-- KEYS[7]    pending
-- KEYS[8]    marker
-- KEYS[9]    retry
-- KEYS[10]   completed
-- KEYS[11]   archived
-- KEYS[12..] the task's hash, for each task
-- ARGV[1]    TTL of the daily counters in seconds
-- ARGV[2]    prefix of the task keys
-- ARGV[3]    maximum age of archived tasks in seconds
-- ARGV[4]    name of a recovery, which settles only tasks whose lease has expired, and removes IDs
--            in lease that have no active task; "" = a call of the holders
-- ARGV[5]    1 to set the marker if tasks are pending, because the queue has a limit, else 0
-- ARGV[6]    runs of tasks with equal values, in the order of KEYS, without separators. A run:
--            outcome, number, 1 if the attempts count as failed, else 0, count of tasks, length of
--            the token, each with a space behind it; token. The outcomes: complete (number:
--            retention in seconds), retry (number: delay in milliseconds), delay (the same, with a
--            time that is not rounded up to whole seconds), again (retry at once, after the other
--            pending tasks), next (before them), archive (number: maximum number of archived
--            tasks), requeue (unfinished tasks, in reverse order of execution), delete, done
--            (delete after a success), drop (delete, counts as processed)
-- ARGV[7..]  for each task: msg ("" = unchanged); then for each value: number of its task, its name
--            (lock, result, progress, drop, flow, await, or the field of a log entry), the value
--            (drop: the field of the log entry to remove; flow: 1 if the result of the task is that
--            of its node, else 0, and the name of the part; await: the client that waits, or "-").
--            A task that leaves its lock to a follower needs the lock with each outcome but archive
-- RETURN     for each task: OK, ALREADY, GONE or LOST. A repeated call returns GONE for deleted
--            tasks.
-- BOUND      500 tasks, and as many trimmed
--
-- A task that would wait again is deleted if a follower has replaced it; see lib/replaced.lua. The
-- attempt counts as usual.
--
-- The variant settle_members also takes flow and await: it counts members of flows that end, and
-- notifies clients that wait for the end of a task.
-- include: codes fields clock mark counters locks long active held purge archive expired replaced
-- members: -- include: member

local now, us = clock()
local recovery = ARGV[4] ~= "" and ARGV[4]
-- The tables of values and outcomes that no task has stay nil: each costs as much as a command.
local args, values = ARGV, nil
-- members: local flows, awaits, ends, prefix = {}, {}, {}, string.sub(ARGV[2], 1, -3)
local logs, drops -- logs: the position of the entry's field in args
for first = #KEYS - 4, #args, 3 do -- 11 keys and 6 arguments are not of a task
  local i, name = tonumber(args[first]), args[first + 1]
  if name == "drop" then
    drops = drops or {}
    drops[i] = args[first + 2]
  elseif name == "lock" or name == "result" or name == "progress" then
    values = values or {}
    values[name] = values[name] or {}
    values[name][i] = args[first + 2]
  -- members: elseif name == "flow" then flows[i] = args[first + 2]
  -- members: elseif name == "await" then awaits[i] = args[first + 2]
  else
    logs = logs or {}
    logs[i] = first + 1
  end
end
local locks, results, progress
if values then
  locks, results, progress = values.lock, values.result, values.progress
end

local codes, ids, settled, n = {}, {}, {}, 0
local entries, front, back, toDelete, relocks
local processed, failures = 0, 0

-- collect(key) returns the scores and IDs to add to a sorted set.
local function collect(key)
  entries = entries or {}
  if not entries[key] then
    redis.call("ZCARD", key) -- raises an error for a key of another type, before the first write
    entries[key] = {}
  end
  return entries[key]
end

local runs, at, i, from, size = ARGV[6], 1, 0, #ARGV[2] + 1, nil
while at <= #runs do
  local _, last, outcome, number, failed, tasks, length = string.find(runs, "^(%l+) (%d+) ([01]) (%d+) (%d+) ", at)
  at = last + tonumber(length) + 1
  local token = string.sub(runs, last + 1, at - 1)
  local to, set, score, list = { by = recovery or token }, nil, nil, nil
  if outcome == "complete" then
    to.state, set, score = "completed", collect(KEYS[10]), now + tonumber(number) + (us > 0 and 1 or 0)
  elseif outcome == "retry" then
    -- Round up to whole seconds: never before the delay has passed.
    to.state, set, score = "retry", collect(KEYS[9]), now + math.ceil(us / 1e6 + tonumber(number) / 1000)
  elseif outcome == "delay" then
    local ms = math.ceil(us / 1000) + tonumber(number)
    to.state, set, score = "retry", collect(KEYS[9]), string.format("%d.%03d", now + math.floor(ms / 1000), ms % 1000)
  elseif outcome == "archive" then
    to.state, set, score, size = "archived", collect(KEYS[11]), now, tonumber(number)
  elseif outcome ~= "delete" and outcome ~= "done" and outcome ~= "drop" then
    redis.call("LLEN", KEYS[7])
    to.state, front, back = "pending", front or {}, back or {}
    list = outcome == "again" and back or front
  end
  local waits = to.state == "retry" or to.state == "pending"
  local counts = (outcome == "complete" or outcome == "done" or outcome == "drop") and 1 or tonumber(failed)
  for _ = 1, tonumber(tasks) do
    i = i + 1
    local task = KEYS[i + 11]
    local id, code = string.sub(task, from), held(task, token, recovery or token)
    if recovery then
      if code == OK and not expired(KEYS[2], id, now) then
        code = LOST
      elseif code == LOST and fields(task, "state")[1] ~= "active" and redis.call("ZSCORE", KEYS[2], id) then
        code = GONE -- the task has left the state
      end
    end
    codes[i] = code
    if code == OK or recovery and code == GONE then
      n = n + 1
      ids[n] = id
    end
    if code == OK then
      local deleted, till = not to.state, waits and locks and locks[i] and fields(task, "followed")[1]
      if till then
        relocks = relocks or {}
        deleted = replaced(id, locks[i], till, ARGV[2], now * 1000 + math.floor(us / 1000), relocks)
      end
      settled[i] = not deleted and to
      if deleted then
        toDelete = toDelete or {}
        toDelete[#toDelete + 1] = task
      elseif set then
        set[#set + 1] = score
        set[#set + 1] = id
      elseif outcome ~= "requeue" and (fields(task, "group")[1] or "") ~= "" then
        settled[i] = { by = to.by, state = "retry" } -- the forwarder returns it to its group
        local due = collect(KEYS[9])
        due[#due + 1] = now
        due[#due + 1] = id
      else
        list[#list + 1] = id
      end
      if locks and (outcome == "complete" or not to.state) and owns(locks[i], id) then
        toDelete = toDelete or {}
        toDelete[#toDelete + 1] = locks[i]
      end
      processed = processed + counts
      failures = failures + failed
      -- members: local result = results and results[i]
      -- members: noteEnd(ends, prefix, flows[i], awaits[i], task, id, outcome, result)
    end
  end
end
if n == 0 then
  return codes
end

removeActive(KEYS[1], KEYS[2], ARGV[2], ids)
for key, scored in pairs(entries or {}) do
  if #scored > 0 then
    redis.call("ZADD", key, unpack(scored))
  end
end
if toDelete then
  redis.call("DEL", unpack(toDelete))
end
if relocks then
  relock(relocks)
end
local now_ns = front and nanoseconds(now, us)
for i = 1, #codes do
  local to, task, msg = settled[i], KEYS[i + 11], ARGV[i + 6]
  local state = to and to.state
  if state then
    local log, since = logs and logs[i], state == "pending" and now_ns
    if msg == "" then
      redis.call("HSET", task, "state", state, "settled", to.by)
    elseif not log then
      redis.call("HSET", task, "state", state, "settled", to.by, "msg", msg)
    elseif not since then -- a command of its own would cost more than the entry
      redis.call("HSET", task, "state", state, "settled", to.by, "msg", msg, args[log], args[log + 1])
      log = nil
    else
      redis.call("HSET", task, "state", state, "settled", to.by, "msg", msg, args[log], args[log + 1], "pending_since", since)
      log, since = nil, nil
    end
    if since then
      redis.call("HSET", task, "pending_since", since)
    end
    if log then
      redis.call("HSET", task, args[log], args[log + 1])
    end
    if results and results[i] then
      redis.call("HSET", task, "result", results[i])
    end
    if progress and progress[i] then
      redis.call("HSET", task, "progress", progress[i])
    end
    if drops and drops[i] then
      redis.call("HDEL", task, drops[i])
    end
    -- Processes of other libraries may fetch the task next, and do not know the token.
    if state == "completed" then
      redis.call("HDEL", task, "token", "position", "followed", "unique_key")
    else
      redis.call("HDEL", task, "token", "position", "followed")
    end
  end
end
if front and #front > 0 then
  redis.call("RPUSH", KEYS[7], unpack(front))
end
if back and #back > 0 then
  redis.call("LPUSH", KEYS[7], unpack(back))
end
if front and #front + #back > 0 or ARGV[5] == "1" and redis.call("EXISTS", KEYS[7]) == 1 then
  mark(KEYS[8])
end
count(KEYS[3], KEYS[4], processed, ARGV[1])
count(KEYS[5], KEYS[6], failures, ARGV[1])
if entries and #(entries[KEYS[11]] or {}) > 0 then
  trim(KEYS[11], ARGV[2], now, size, tonumber(ARGV[3]), 500)
end
-- members: countEnds(ends, prefix, now, us)
return codes
