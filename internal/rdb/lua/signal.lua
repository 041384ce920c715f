-- Stores a signal for a task, unless it has it, and makes the task pending if it waits for it.
--
-- KEYS[1]  retry
-- KEYS[2]  scheduled
-- KEYS[3]  pending
-- KEYS[4]  marker
-- KEYS[5]  the task's hash
-- ARGV[1]  id
-- ARGV[2]  name of the signal
-- ARGV[3]  its value
-- ARGV[4]  maximum number of signals of the task
-- RETURN   OK, ALREADY (the task has the signal), GONE, UNFIT (the task is completed), or CAPPED
--          (it has the maximum number)
-- BOUND    one task; 600 fields; a megabyte
--
-- At maxmemory the first write fails, and nothing is written.
-- include: codes fields clock mark wake

local task, id, field = KEYS[5], ARGV[1], "sig:" .. ARGV[2]
local f = fields(task, "state", field, "awaits", "held", "group")
local state = f[1]
if not state then
  return GONE
elseif f[2] then
  return ALREADY
elseif state == "completed" then
  return UNFIT
end
local most, n = tonumber(ARGV[4]), 0
if redis.call("HLEN", task) >= most then
  for _, other in ipairs(redis.call("HKEYS", task)) do
    if string.sub(other, 1, 4) == "sig:" then
      n = n + 1
    end
  end
  if n >= most then
    return CAPPED
  end
end
local set = state == "retry" and KEYS[1] or state == "scheduled" and not f[4] and KEYS[2]
local waits = set and string.match(f[3] or "", "^%d+ (.*)$") == ARGV[2] and redis.call("ZSCORE", set, id)
if waits then
  redis.call("LLEN", KEYS[3])
end
redis.call("HSET", task, field, ARGV[3])
if waits then
  wake(task, id, f[5], set, KEYS[3], KEYS[4])
end
return OK
