-- Replaces the message of a scheduled task, unless it has changed since the caller read it.
--
-- KEYS[1]  the task's hash
-- ARGV[1]  the message that the caller read
-- ARGV[2]  the new message
-- RETURN   OK, GONE, ACTIVE, UNFIT (not scheduled) or CHANGED
-- BOUND    one task
--
-- A repeated call, which finds the new message, returns OK again.
-- include: codes fields

local f = fields(KEYS[1], "state", "msg")
if not f[1] then
  return GONE
elseif f[1] == "active" then
  return ACTIVE
elseif f[1] ~= "scheduled" then
  return UNFIT
elseif f[2] == ARGV[2] then
  return OK
elseif f[2] ~= ARGV[1] then
  return CHANGED
end
redis.call("HSET", KEYS[1], "msg", ARGV[2])
return OK
