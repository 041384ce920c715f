-- Creates tasks in pending or scheduled that are members of a part: of a node of a flow. A part
-- that was closed gets no more members.
--
-- KEYS[1]    pending
-- KEYS[2]    marker
-- KEYS[3]    scheduled
-- KEYS[4]    the part
-- KEYS[5]    its open members
-- KEYS[6]    flows:due
-- KEYS[7]    idempotency record; the part, if the tasks are of the plan
-- KEYS[8..]  the task's hash, for each task
-- ARGV[1]    number of the call; "" = the tasks are of the plan, and the part records the call
-- ARGV[2]    length of the prefix of the task keys, before the ID
-- ARGV[3]    name of the part
-- ARGV[4]    of tasks of the plan, the field of the part for the call
-- ARGV[5]    TTL of the part in seconds
-- ARGV[6]    milliseconds until a server checks the part
-- ARGV[7..]  for each task: msg, time to process in unix seconds (0 = now)
-- RETURN     OK if all tasks are created, else for each task: OK or CONFLICT; STALE if the part is
--            closed or a later call with the record has run, ALREADY if the tasks of the plan were
--            created before
-- BOUND      500 tasks
--
-- The first write of tasks of the plan is HSETNX, of others that of the record: at maxmemory it
-- fails, and nothing is written.
-- include: codes clock mark record create

local tasks, planned = { unpack(KEYS, 8) }, ARGV[1] == ""
local free = redis.call("EXISTS", unpack(tasks)) == 0
local ids, _, codes, fine = newTasks(tasks, ARGV[2], {}, free)
redis.call("LLEN", KEYS[1])
redis.call("ZCARD", KEYS[3])
redis.call("SCARD", KEYS[5])
redis.call("ZCARD", KEYS[6])
local f = redis.call("HMGET", KEYS[4], "closed", planned and ARGV[4] or "closed")
local refused = planned and f[2] and ALREADY or f[1] and STALE
if refused then
  for i in ipairs(codes) do
    codes[i] = refused
  end
  return codes
end
if planned then
  redis.call("HSETNX", KEYS[4], ARGV[4], "1")
else
  local answer = begin(KEYS[7], ARGV[1], codes, fine)
  if answer then
    return answer
  end
end
local now, us = clock()
local now_ns, ready, delayed, made = nanoseconds(now, us), {}, {}, {}
local a = 7
for i, id in ipairs(ids) do
  local msg, at = ARGV[a], ARGV[a + 1]
  a = a + 2
  if codes[i] == OK then
    made[#made + 1] = id
    if at == "0" then
      redis.call("HSET", tasks[i], "msg", msg, "state", "pending", "pending_since", now_ns, "flow", ARGV[3])
      ready[#ready + 1] = id
    else
      redis.call("HSET", tasks[i], "msg", msg, "state", "scheduled", "flow", ARGV[3])
      delayed[#delayed + 1], delayed[#delayed + 2] = at, id
    end
  end
end
if #made > 0 then
  redis.call("SADD", KEYS[5], unpack(made))
  redis.call("EXPIRE", KEYS[5], ARGV[5])
end
redis.call("HINCRBY", KEYS[4], "made", #made)
if planned then
  redis.call("HINCRBY", KEYS[4], "planned", #ids)
end
redis.call("HINCRBY", KEYS[4], "version", 1)
redis.call("EXPIRE", KEYS[4], ARGV[5])
local check = string.format("%d", now * 1000 + math.floor(us / 1000) + ARGV[6])
redis.call("HSET", KEYS[4], "check", check)
redis.call("ZADD", KEYS[6], "NX", check, ARGV[3])
redis.call("EXPIRE", KEYS[6], ARGV[5])
if #ready > 0 then
  redis.call("LPUSH", KEYS[1], unpack(ready))
end
if #delayed > 0 then
  redis.call("ZADD", KEYS[3], unpack(delayed))
end
mark(KEYS[2])
return created(codes, fine, false)
