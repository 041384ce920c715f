-- Tells all that is known of one task.
--
-- KEYS[1]  the task's hash
-- KEYS[2]  scheduled
-- KEYS[3]  retry
-- KEYS[4]  lease
-- ARGV[1]  id
-- RETURN   {state, msg, result or false, time to process in unix seconds or -1, 1 if active without a lease that lasts, else 0,
--          token it is held under or false, token of its last attempt that was settled or false}, or {} if there is no such task
-- BOUND    one task
-- include: fields clock expired

local f = fields(KEYS[1], "state", "msg", "result", "token", "settled")
if not f[1] then
  return {}
end
local at, orphaned = -1, 0
if f[1] == "scheduled" then
  at = tonumber(redis.call("ZSCORE", KEYS[2], ARGV[1]) or -1)
elseif f[1] == "retry" then
  at = tonumber(redis.call("ZSCORE", KEYS[3], ARGV[1]) or -1)
elseif f[1] == "active" and expired(KEYS[4], ARGV[1], clock()) then
  orphaned = 1
end
return { f[1], f[2] or "", f[3], at, orphaned, f[4], f[5] }
