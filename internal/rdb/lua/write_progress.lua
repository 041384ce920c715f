-- Stores the progress of tasks on behalf of the attempts that hold them.
--
-- KEYS[1..]  the task's hash, for each task
-- ARGV[1..]  for each task: token, progress
-- RETURN     for each task: OK, GONE or LOST
-- BOUND      500 tasks; a megabyte
-- include: codes fields held

local codes = {}
local a = 1
for k = 1, #KEYS do
  local code = held(KEYS[k], ARGV[a], "")
  if code == OK then
    redis.call("HSET", KEYS[k], "progress", ARGV[a + 1])
  end
  codes[k] = code
  a = a + 2
end
return codes
