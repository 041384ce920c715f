-- Completes the tasks that were fetched first, without checks.
--
-- KEYS[1]    active
-- KEYS[2]    lease
-- KEYS[3]    processed, total
-- KEYS[4]    processed, today
-- KEYS[5..]  the task's hash, for each task
-- ARGV       id, for each task
-- RETURN     1
-- BOUND      500 tasks

redis.call("RPOP", KEYS[1], #ARGV)
redis.call("ZREM", KEYS[2], unpack(ARGV))
for i = 5, #KEYS do
  redis.call("DEL", KEYS[i])
end
redis.call("INCRBY", KEYS[3], #ARGV)
if redis.call("INCRBY", KEYS[4], #ARGV) == #ARGV then
  redis.call("EXPIRE", KEYS[4], 7776000)
end
return 1
