-- Replaces the message of a task that is not active or completed, and optionally changes its time
-- or moves it to another queue, unless the message has changed since the caller read it.
--
-- KEYS[1]   pending
-- KEYS[2]   scheduled
-- KEYS[3]   retry
-- KEYS[4]   archived
-- KEYS[5]   groups
-- KEYS[6]   idempotency record
-- KEYS[7]   the task's hash
-- KEYS[8]   pending of the target
-- KEYS[9]   scheduled of the target
-- KEYS[10]  retry of the target
-- KEYS[11]  archived of the target
-- KEYS[12]  groups of the target
-- KEYS[13]  groups_due of the target
-- KEYS[14]  marker of the target
-- KEYS[15]  the task's hash of the target
-- KEYS[16]  partitions:held
-- ARGV[1]   number of the call
-- ARGV[2]   ID of the task
-- ARGV[3]   the message that the caller read
-- ARGV[4]   the new message
-- ARGV[5]   the new time in unix seconds; "" = unchanged
-- ARGV[6]   prefix of the group keys
-- ARGV[7]   prefix of the task keys of the target
-- ARGV[8]   prefix of the group keys of the target
-- ARGV[9]   its lock in the target; "" = it has none
-- RETURN    OK, GONE, ACTIVE, STAGED, UNFIT (completed), BROKEN, CHANGED, CONFLICT or DUPLICATE (in
--           the target); STALE if a later call with the record has run
-- BOUND     one task
--
-- The target is the queue of the task or another one in its hash slot. A task in retry stays in
-- retry; a new time makes any other scheduled. The record is the first write: at maxmemory it
-- fails, and nothing is written.
-- include: codes clock fields mark gather locks record create change

local codes = load(KEYS[6], ARGV[1], 1)
if codes then
  return codes[1]
end
local now, us = clock()
local moves = KEYS[7] ~= KEYS[15]
local q = {
  pending = KEYS[1], groups = KEYS[5], prefix = ARGV[6], held = KEYS[16], n = 1, from = "", group = "", unfit = "completed",
  sets = { scheduled = KEYS[2], retry = KEYS[3], archived = KEYS[4] },
}
local to = { scheduled = KEYS[9], retry = KEYS[10], archived = KEYS[11] }
local code, at = locate(q, KEYS[7], ARGV[2])
if code == OK and fields(KEYS[7], "msg")[1] ~= ARGV[3] then
  code = CHANGED
elseif code == OK and moves then
  code = creatable(KEYS[15], "", owns(at.lock, ARGV[2]) and ARGV[9] or "", ARGV[7], {})
end
if code ~= OK then
  return code
end
local state, score = at.state, q.sets[at.state] and redis.call("ZSCORE", q.sets[at.state], ARGV[2]) or now
if ARGV[5] ~= "" then
  state, score = state == "retry" and state or "scheduled", ARGV[5]
end
redis.call("LLEN", KEYS[8])
redis.call("SCARD", KEYS[12])
redis.call("ZCARD", KEYS[13])
redis.call("EXISTS", KEYS[14])
redis.call("ZCARD", to[state] or state == "aggregating" and ARGV[8] .. at.group or KEYS[9])

store(KEYS[6], ARGV[1], { OK }, 1)
if moves then
  if owns(at.lock, ARGV[2]) then
    local ttl = redis.call("PTTL", at.lock)
    redis.call("DEL", at.lock)
    if ttl > 0 then
      redis.call("SET", ARGV[9], ARGV[2], "PX", string.format("%d", ttl))
    end
  end
  detach(q, { at }, {})
  redis.call("RENAME", KEYS[7], KEYS[15])
  if ARGV[9] ~= "" then
    redis.call("HSET", KEYS[15], "unique_key", ARGV[9])
  end
elseif state ~= at.state or at.held and ARGV[5] ~= "" then
  detach(q, { at }, {})
end
redis.call("HSET", KEYS[15], "msg", ARGV[4], "state", state)
if to[state] then
  if moves or ARGV[5] ~= "" then
    redis.call("ZADD", to[state], score, ARGV[2])
    redis.call("HDEL", KEYS[15], "pending_since")
    if state ~= "archived" and redis.call("ZRANGE", to[state], "0", "0")[1] == ARGV[2] then
      mark(KEYS[14]) -- the server that wakes up recomputes how long it sleeps
    end
  end
elseif moves and state == "aggregating" then
  gather(KEYS[12], KEYS[13], { { ARGV[8] .. at.group, at.group, ARGV[2] } }, now)
elseif moves then
  redis.call("HSET", KEYS[15], "pending_since", nanoseconds(now, us))
  redis.call("LPUSH", KEYS[8], ARGV[2])
  mark(KEYS[14])
end
return OK
