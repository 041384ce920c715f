-- Adds tasks to pending without checks.
--
-- KEYS[1]   pending
-- ARGV[1]   prefix of the task keys
-- ARGV[2..] for each task: id, msg
-- RETURN    the length of pending
-- BOUND     500 tasks

local now = redis.call("TIME")
local since = now[1] .. string.format("%06d", now[2]) .. "000"
local ids = {}
for i = 2, #ARGV, 2 do
  ids[#ids + 1] = ARGV[i]
  redis.call("HSET", ARGV[1] .. ARGV[i], "msg", ARGV[i + 1], "state", "pending", "pending_since", since)
end
return redis.call("LPUSH", KEYS[1], unpack(ids))
