-- Creates exported tasks in their states, each once per import.
--
-- KEYS[1]    pending
-- KEYS[2]    scheduled
-- KEYS[3]    retry
-- KEYS[4]    archived
-- KEYS[5]    completed
-- KEYS[6]    groups
-- KEYS[7]    groups_due
-- KEYS[8]    marker
-- KEYS[9]    marks of the import
-- KEYS[10]   partitions:held
-- KEYS[11..] the task's hash, for each task
-- ARGV[1]    prefix of the group keys
-- ARGV[2]    prefix of the task keys
-- ARGV[3]    1 to replace tasks with the same ID
-- ARGV[4]    TTL of the marks in seconds
-- ARGV[5..]  for each task: number within the import, id, state, msg, score (pending:
--            pending_since), result, log, group, unique_key, unix milliseconds when its lock
--            expires or 0
-- RETURN     for each task: OK, ALREADY (this import has created it before), CONFLICT, DUPLICATE,
--            ACTIVE, STAGED, LATER or BROKEN
-- BOUND      250 tasks
--
-- An imported task may have run and been deleted. The marks, one bit per created task, prevent a
-- repeated import from creating it again.
-- include: codes clock fields mark locks collections change create

local now, us = clock()
local q = {
  pending = KEYS[1], groups = KEYS[6], prefix = ARGV[1], held = KEYS[10], n = #KEYS - 10, from = "", group = "",
  sets = { scheduled = KEYS[2], retry = KEYS[3], archived = KEYS[4], completed = KEYS[5] },
}
redis.call("LLEN", KEYS[1])
redis.call("SCARD", KEYS[6])
redis.call("ZCARD", KEYS[7])
redis.call("EXISTS", KEYS[8])
for _, set in pairs(q.sets) do
  redis.call("ZCARD", set)
end
local codes, new, out, toDelete, made = {}, {}, {}, {}, {}
local a = 5
for k = 11, #KEYS do
  local task = KEYS[k]
  local t = {
    task = task, number = ARGV[a], id = ARGV[a + 1], state = ARGV[a + 2], msg = ARGV[a + 3], score = ARGV[a + 4],
    result = ARGV[a + 5], log = ARGV[a + 6], group = ARGV[a + 7], lock = ARGV[a + 8], till = ARGV[a + 9],
  }
  a = a + 10
  t.locked = tonumber(t.till) > now * 1000 + math.floor(us / 1000)
  local code, at, old = OK, nil, nil
  if redis.call("GETBIT", KEYS[9], t.number) == 1 then
    code = ALREADY
  elseif made[task] then
    code = CONFLICT
  elseif redis.call("EXISTS", task) == 1 then
    code = CONFLICT
    if ARGV[3] == "1" then
      code, at = locate(q, task, t.id)
      old = fields(task, "unique_key")[1]
      if code == GONE then
        code = BROKEN
      end
    end
  end
  if code == OK and t.state == "aggregating" and not usable(ARGV[1] .. t.group, "zset") then
    code = BROKEN
  end
  if code == OK then
    code = creatable(task, t.id, t.locked and t.lock or "", ARGV[2], made, true)
  end
  if code == OK then
    new[#new + 1] = t
    if at then
      out[#out + 1] = at
      toDelete[#toDelete + 1] = task
      if owns(old, t.id) then
        toDelete[#toDelete + 1] = old
      end
    end
  end
  codes[#codes + 1] = code
end
if #new == 0 then
  return codes
end

detach(q, out, {})
if #toDelete > 0 then
  redis.call("DEL", unpack(toDelete))
end
local first, grouped = {}, false
for _, t in ipairs(new) do
  redis.call("SETBIT", KEYS[9], t.number, 1)
  create(t.task, t.id, t.msg, t.state)
  if t.result ~= "" then
    redis.call("HSET", t.task, "result", t.result)
  end
  if t.log ~= "" then
    for field, entry in string.gmatch(t.log, "([^\n]+)\n([^\n]+)") do
      redis.call("HSET", t.task, field, entry)
    end
  end
  if t.group ~= "" then
    redis.call("HSET", t.task, "group", t.group)
  end
  if t.lock ~= "" then
    redis.call("HSET", t.task, "unique_key", t.lock)
  end
  if t.locked and t.lock ~= "" then
    redis.call("SET", t.lock, t.id)
    redis.call("PEXPIREAT", t.lock, t.till)
  end
  if t.state == "pending" then
    redis.call("HSET", t.task, "pending_since", t.score ~= "" and t.score or nanoseconds(now, us))
    redis.call("LPUSH", KEYS[1], t.id)
    mark(KEYS[8])
  elseif t.state == "aggregating" then
    redis.call("ZADD", ARGV[1] .. t.group, t.score ~= "" and t.score or now, t.id)
    redis.call("SADD", KEYS[6], t.group)
    redis.call("ZADD", KEYS[7], now, t.group)
    grouped = true
  else
    redis.call("ZADD", q.sets[t.state], t.score ~= "" and t.score or now, t.id)
    first[t.id] = true
  end
end
redis.call("EXPIRE", KEYS[9], ARGV[4])
if grouped then
  redis.call("EXPIRE", KEYS[7], 3600)
end
for _, set in ipairs({ KEYS[2], KEYS[3] }) do
  if first[redis.call("ZRANGE", set, 0, 0)[1] or ""] then
    mark(KEYS[8])
  end
end
return codes
