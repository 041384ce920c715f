-- Returns the steps and signals of a task to the attempt that holds it. The task no longer awaits a
-- signal, because its handler runs.
--
-- KEYS[1]  the task's hash
-- ARGV[1]  token of the fetch
-- ARGV[2]  maximum bytes of the values
-- RETURN   {OK, GONE or LOST; unix milliseconds now; then for each step and signal: its field, and
--          its value, or the number of its bytes if the values exceed ARGV[2]}
-- BOUND    500 steps and 100 signals; ARGV[2], or one value
-- include: codes fields clock held

local now, us = clock()
local ms = now * 1000 + math.floor(us / 1000)
local code = held(KEYS[1], ARGV[1], "")
if code ~= OK then
  return { code, ms }
end
local reply, n, bytes = { OK, ms }, 2, 0
for _, field in ipairs(redis.call("HKEYS", KEYS[1])) do
  if string.sub(field, 1, 5) == "step:" or string.sub(field, 1, 4) == "sig:" then
    local size = redis.call("HSTRLEN", KEYS[1], field)
    local reads = bytes == 0 or bytes + size <= tonumber(ARGV[2])
    reply[n + 1], reply[n + 2] = field, reads and redis.call("HGET", KEYS[1], field) or size
    n, bytes = n + 2, bytes + (reads and size or 0)
  end
end
redis.call("HDEL", KEYS[1], "awaits")
return reply
