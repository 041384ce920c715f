-- Puts a task to sleep until a signal, or until the end of its wait. settle.lua has moved it to
-- retry before, for a few seconds: if the settlement came after the signal, or this call never
-- comes, the task still runs.
--
-- KEYS[1]  retry
-- KEYS[2]  pending
-- KEYS[3]  marker
-- KEYS[4]  the task's hash
-- ARGV[1]  id
-- ARGV[2]  token of the fetch whose attempt was settled
-- ARGV[3]  1 to keep milliseconds, 0 to round the time up to whole seconds
-- RETURN   OK (the task sleeps), ALREADY (the signal has come: the task is pending), or UNFIT (the
--          attempt has not moved the task to retry, or it waits for no signal)
-- BOUND    one task
--
-- The first write is ZREM, which is allowed at maxmemory.
-- include: codes fields clock mark wake

local f = fields(KEYS[4], "state", "settled", "awaits", "group")
local till, name = string.match(f[3] or "", "^(%d+) (.*)$")
if f[1] ~= "retry" or f[2] ~= ARGV[2] or not till or not redis.call("ZSCORE", KEYS[1], ARGV[1]) then
  return UNFIT
elseif fields(KEYS[4], "sig:" .. name)[1] then
  return wake(KEYS[4], ARGV[1], f[4], KEYS[1], KEYS[2], KEYS[3]) and ALREADY or UNFIT
end
till = tonumber(till)
redis.call("ZREM", KEYS[1], ARGV[1])
if ARGV[3] == "1" then
  redis.call("ZADD", KEYS[1], string.format("%d.%03d", math.floor(till / 1000), till % 1000), ARGV[1])
else
  redis.call("ZADD", KEYS[1], string.format("%d", math.ceil(till / 1000)), ARGV[1])
end
return OK
