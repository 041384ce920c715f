-- Creates tasks, or replaces or keeps those that hold their locks: OnDuplicate, Debounce and
-- Throttle.
--
-- KEYS[1]    pending
-- KEYS[2]    marker
-- KEYS[3]    scheduled
-- KEYS[4]    retry
-- KEYS[5]    groups
-- KEYS[6]    groups_due
-- KEYS[7]    idempotency record
-- KEYS[8]    partitions:held
-- KEYS[9..]  for each task: the task's hash, its lock (no two tasks have the same)
-- ARGV[1]    number of the call
-- ARGV[2]    prefix of the task keys
-- ARGV[3]    prefix of the group keys
-- ARGV[4..]  for each task: id, msg, time to process in unix seconds (0 = now), group to enter when
--            due ("" = none), TTL of the lock in seconds, policy (keep, replace or supersede),
--            quiet seconds of a debounce (0 = none), its maximum wait in seconds (0 = unlimited),
--            key of a throttle ("" = none), its window in seconds
-- RETURN     for each task: its code; the ID of the task that it stands for ("" = its own); the
--            state of that task and when it is due in unix seconds (0 = at once), if this call has
--            written it ("" = not); the ID of an active task to cancel ("" = none); fields to
--            append to its message (see kept). The code is OK (created), ALREADY (replaced or
--            kept), CONFLICT, DUPLICATE (the lock is not of its holder), BROKEN, LATER; STALE if a
--            later call with the record has run; FIRST instead of OK if the queue was empty before
-- BOUND      100 tasks, and the messages that they replace
--
-- A waiting task that holds the lock is replaced. One that is active or being aggregated is
-- followed: the new task is created and takes over the lock, which its former holder then does not
-- release. The field followed of the former holder has the time when its lock would have expired,
-- in unix milliseconds; see lib/replaced.lua. The lock of a task in any other state is free. The
-- field first_at has the time of the first call of a debounce.
--
-- The record is written unless the call changes nothing: a repeated call is evaluated again then.
-- It is the first write: at maxmemory it fails, and nothing is written. Behind the codes it has the
-- IDs of each task in hexadecimal: "<id>z<id to cancel>z".
-- include: codes clock fields mark gather record create place change varint kept

local n = (#KEYS - 8) / 2
local reply, raw = {}, redis.call("GET", KEYS[7])

-- hex(text) encodes an ID for the record.
local function hex(text)
  return (string.gsub(text, ".", function(c)
    return string.format("%02x", string.byte(c))
  end))
end

-- unhex(text) is the inverse of hex.
local function unhex(text)
  return (string.gsub(text, "%x%x", function(c)
    return string.char(tonumber(c, 16))
  end))
end

local codes = decode(raw, ARGV[1], n)
if codes then
  local ids = {}
  for id, superseded in string.gmatch(string.sub(raw, #ARGV[1] + n + 2), "(%x*)z(%x*)z") do
    ids[#ids + 1] = { unhex(id), unhex(superseded) }
  end
  for i, code in ipairs(codes) do
    local of = ids[i] or { "", "" }
    for _, value in ipairs({ code, of[1], "", "", of[2], "" }) do
      reply[#reply + 1] = value
    end
  end
  return reply
end

local now, us = clock()
local now_ms, up = now * 1000 + math.floor(us / 1000), us > 0 and 1 or 0
local q = {
  pending = KEYS[1], groups = KEYS[5], prefix = ARGV[3], held = KEYS[8], n = n, from = "", group = "",
  sets = { scheduled = KEYS[3], retry = KEYS[4] },
}
local waits = { pending = true, scheduled = true, retry = true, aggregating = true }
local made = {}

-- debounce(t, first) sets when a debounced task is due, whose first call was at that time.
local function debounce(t, first)
  local at = now + up + t.quiet
  if t.wait > 0 then
    at = math.min(at, first + t.wait)
  end
  t.first, t.at = first, string.format("%d", at)
end

-- planNew(t, former) decides where a new task goes. former is the active or staged holder of its
-- lock, if any. It returns a code and only reads, as the next functions do.
local function planNew(t, former)
  local code = creatable(t.task, "", "", ARGV[2], made)
  if code ~= OK then
    return code
  end
  t.action = "create"
  if t.quiet > 0 then
    debounce(t, now)
  elseif t.till then
    t.at = string.format("%d", math.ceil(t.till / 1000)) -- at the end of the window
  elseif t.throttle ~= "" then
    t.unlocked = true -- the first task of a window
  end
  if former and not t.unlocked then
    t.follows, t.expires = ARGV[2] .. former, string.format("%d", now_ms + redis.call("PTTL", t.lock))
  end
  placeable(t, KEYS[1], KEYS[3], KEYS[5], KEYS[6], ARGV[3])
  return OK
end

-- planChange(t, holder, state, group, first) decides how a waiting holder of the lock is replaced:
-- in its place (edit), or with another time or group (move). A task that is due, or in a window,
-- keeps its time if the call sets none of its own.
local function planChange(t, holder, state, group, first)
  local task, edit, code, at = ARGV[2] .. holder, false, OK, nil
  local own = t.quiet == 0 and t.throttle == ""
  if state == "scheduled" then
    edit = t.throttle ~= ""
  else
    t.at = own and t.at or "0"
    edit = state == "retry" or t.at == "0" and (t.group == group or t.group == "" and state == "pending")
  end
  if state ~= "pending" or not edit then
    code, at = locate(q, task, holder)
  end
  if code == STAGED then
    return planNew(t, holder)
  elseif code ~= OK then
    return code
  end
  if state == "scheduled" and t.quiet > 0 then
    debounce(t, tonumber(first or now))
  end
  if not edit then
    placeable(t, KEYS[1], KEYS[3], KEYS[5], KEYS[6], ARGV[3])
  end
  t.action, t.holder, t.state, t.found, t.former = edit and "edit" or "move", holder, state, at, group
  t.task, t.kept = task, kept(holder, redis.call("HGET", task, "msg") or "")
  return ALREADY
end

-- plan(t) decides what the call does with a task.
local function plan(t)
  if t.throttle ~= "" then
    local till, first = string.match(redis.call("GET", t.throttle) or "", "^(%d+) (.*)$")
    till = tonumber(till)
    t.till = till and till > now_ms and till
    if t.policy == "keep" then
      t.holder = t.till and first
      return t.till and ALREADY or planNew(t)
    end
  end
  local holder = redis.pcall("GET", t.lock)
  if type(holder) == "table" then
    redis.call("EXISTS", t.lock) -- raises if this node does not serve the lock
    return DUPLICATE -- a key of another type is not a lock
  end
  local f = holder and fields(ARGV[2] .. holder, "state", "group", "unique_key", "first_at") or {}
  local active = f[1] == "active"
  if not active and not waits[f[1]] then
    return planNew(t)
  elseif f[3] ~= t.lock then
    return DUPLICATE
  elseif t.policy == "keep" then
    t.holder = holder
    return ALREADY
  end
  if not active then
    return planChange(t, holder, f[1], f[2] or "", f[4])
  end
  local code = planNew(t, holder)
  t.superseded = code == OK and t.policy == "supersede" and holder
  return code
end

local tasks, moved, record, details, writes = {}, {}, {}, {}, false
local a = 4
for k = 9, #KEYS, 2 do
  local t = { task = KEYS[k], lock = KEYS[k + 1], id = ARGV[a], msg = ARGV[a + 1], at = ARGV[a + 2], group = ARGV[a + 3] }
  t.ttl, t.policy, t.quiet, t.wait = ARGV[a + 4], ARGV[a + 5], tonumber(ARGV[a + 6]), tonumber(ARGV[a + 7])
  t.throttle, t.window = ARGV[a + 8], tonumber(ARGV[a + 9]) * 1000
  a = a + 10
  t.code = plan(t)
  writes = writes or t.action
  if t.action == "move" and (t.state ~= "scheduled" or t.at == "0" or t.found.held) then
    moved[#moved + 1] = t.found
  end
  tasks[#tasks + 1] = t
  record[#record + 1] = t.code < 10 and t.code or string.char(87 + t.code)
  details[#details + 1] = hex(t.holder or "") .. "z" .. hex(t.superseded or "") .. "z"
end
if writes then
  redis.call("SET", KEYS[7], ARGV[1] .. ":" .. table.concat(record) .. table.concat(details), "EX", "120")
end

-- edit(t) replaces a task in its place.
local function edit(t)
  redis.call("HSET", t.task, "msg", t.msg)
  if t.group ~= t.former then
    if t.group == "" then
      redis.call("HDEL", t.task, "group")
    else
      redis.call("HSET", t.task, "group", t.group)
    end
  end
  redis.call("SET", t.lock, t.holder, "EX", t.ttl)
  if t.state == "retry" and t.at ~= "0" then
    redis.call("ZADD", KEYS[4], t.at, t.holder)
    if redis.call("ZRANGE", KEYS[4], "0", "0")[1] == t.holder then
      mark(KEYS[2])
    end
  end
end

local empty = redis.call("EXISTS", KEYS[1], KEYS[3], KEYS[5]) == 0
detach(q, moved, {})
local new = {}
for _, t in ipairs(tasks) do
  t.id = t.holder or t.id
  if t.kept then
    t.msg = t.msg .. t.kept
  end
  if t.action == "edit" then
    edit(t)
  elseif t.action then
    if t.action == "move" then
      redis.call("HDEL", t.task, "group", "pending_since")
    end
    t.lock = not t.unlocked and t.lock
    t.state = t.at ~= "0" and "scheduled" or t.group ~= "" and "aggregating" or "pending"
    new[#new + 1] = t
  end
end
place(new, KEYS[1], KEYS[2], KEYS[3], KEYS[5], KEYS[6], ARGV[3], now, us)

for _, t in ipairs(tasks) do
  local due = t.at
  if t.follows then
    redis.call("HSET", t.follows, "followed", t.expires)
  end
  if t.action and t.first then
    redis.call("HSET", t.task, "first_at", string.format("%d", t.first))
  end
  if t.action == "create" and t.throttle ~= "" then
    local till = (t.till and t.at * 1000 or now_ms) + t.window
    redis.call("SET", t.throttle, string.format("%d ", till) .. t.id, "PX", string.format("%d", till - now_ms))
  elseif t.action == "edit" then
    due = q.sets[t.state] and redis.call("ZSCORE", q.sets[t.state], t.id) or "0"
  end
  local code = t.code == OK and empty and FIRST or t.code
  for _, value in ipairs({ code, t.holder or "", t.action and t.state or "", due, t.superseded or "", t.kept or "" }) do
    reply[#reply + 1] = value
  end
end
return reply
