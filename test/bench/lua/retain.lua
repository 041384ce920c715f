-- Completes the tasks that were fetched first and retains them with their results, without checks.
--
-- KEYS[1]    active
-- KEYS[2]    lease
-- KEYS[3]    processed, total
-- KEYS[4]    processed, today
-- KEYS[5]    completed
-- KEYS[6..]  the task's hash, for each task
-- ARGV[1]    when the retention ends
-- ARGV[2..]  for each task: id, msg, result
-- RETURN     1
-- BOUND      500 tasks

local ids, expiries = {}, {}
for i = 6, #KEYS do
  local arg = 2 + 3 * (i - 6)
  ids[#ids + 1] = ARGV[arg]
  expiries[#expiries + 1] = ARGV[1]
  expiries[#expiries + 1] = ARGV[arg]
  redis.call("HSET", KEYS[i], "msg", ARGV[arg + 1], "state", "completed", "result", ARGV[arg + 2])
end
redis.call("RPOP", KEYS[1], #ids)
redis.call("ZREM", KEYS[2], unpack(ids))
redis.call("ZADD", KEYS[5], unpack(expiries))
redis.call("INCRBY", KEYS[3], #ids)
if redis.call("INCRBY", KEYS[4], #ids) == #ids then
  redis.call("EXPIRE", KEYS[4], 7776000)
end
return 1
