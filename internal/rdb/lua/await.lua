-- Makes a client wait for the end of a task.
--
-- KEYS[1]  the task's hash
-- ARGV[1]  the client
-- RETURN   {state ("" = there is no such task), 1 if the end of the task will be reported to the
--          client, 0 if the client must poll}
-- BOUND    one task
-- include: fields

local f = fields(KEYS[1], "state", "msg", "awaited_by")
if not f[1] then
  return { "", 0 }
end
local header = string.match(f[2] or "", "asynq%-ext\18(.*)") or ""
if not string.find(header, "await=", 1, true) then
  return { f[1], 0 }
end
local clients = f[3] or ""
if not string.find(" " .. clients .. " ", " " .. ARGV[1] .. " ", 1, true) then
  redis.call("HSET", KEYS[1], "awaited_by", clients == "" and ARGV[1] or clients .. " " .. ARGV[1])
end
return { f[1], 1 }
