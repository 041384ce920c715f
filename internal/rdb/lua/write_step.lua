-- Records a step of a task on behalf of the attempt that holds it: the value of a function that has
-- returned, or since when and until when the task sleeps or waits for a signal. A record does not
-- change, except that a wait times out.
--
-- KEYS[1]  the task's hash
-- ARGV[1]  token of the fetch
-- ARGV[2]  name of the step
-- ARGV[3]  run, sleep or wait
-- ARGV[4]  run: the value; sleep, wait: for how long from now, in milliseconds
-- RETURN   {OK, ALREADY (a record of the step exists, other than that of a wait which is not over),
--          GONE or LOST; unix milliseconds now; the record of the step, or nil; the value of the
--          signal that a wait is for, or nil}. A repeated call returns ALREADY.
-- BOUND    one task; a megabyte
--
-- A record is the kind of the step, unix milliseconds, and the value or the end, separated by
-- spaces. The first write is HDEL, which is allowed at maxmemory.
-- include: codes fields clock held

local now, us = clock()
local ms = now * 1000 + math.floor(us / 1000)
local code = held(KEYS[1], ARGV[1], "")
if code ~= OK then
  return { code, ms, false, false }
end
local verb, field = ARGV[3], "step:" .. ARGV[2]
local f = fields(KEYS[1], field, "sig:" .. ARGV[2])
local record, signal = f[1], verb == "wait" and f[2]
local waits = record and verb == "wait" and string.sub(record, 1, 5) == "wait "
if record and not waits then
  return { ALREADY, ms, verb ~= "run" and record, false }
elseif signal then
  return { OK, ms, record, signal }
end

redis.call("HDEL", KEYS[1], "awaits")
if verb == "run" then
  redis.call("HSET", KEYS[1], field, string.format("run %d ", ms) .. ARGV[4])
  return { OK, ms, false, false }
end
local till = waits and tonumber(string.match(record, "(%d+)$")) or ms + tonumber(ARGV[4])
if verb == "wait" and till <= ms then
  record = string.format("timeout %d %d", ms, till)
else
  record = record or string.format("%s %d %d", verb, ms, till)
end
redis.call("HSET", KEYS[1], field, record)
if verb == "wait" and till > ms then
  redis.call("HSET", KEYS[1], "awaits", string.format("%d ", till) .. ARGV[2])
end
return { OK, ms, record, false }
