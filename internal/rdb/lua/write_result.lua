-- Stores the result of a task, on behalf of the attempt that holds it.
--
-- KEYS[1]  the task's hash
-- ARGV[1]  token
-- ARGV[2]  the result
-- RETURN   OK, GONE or LOST
-- BOUND    one task
-- include: codes fields held

local code = held(KEYS[1], ARGV[1], "")
if code == OK then
  redis.call("HSET", KEYS[1], "result", ARGV[2])
end
return code
