-- Makes the task of one tick of a scheduler entry, unless that tick or a later one is over already. A tick is over once it was
-- made or refused; the record keeps the last one that is, and its answer.
--
-- KEYS[1]   record of the entry's last tick
-- KEYS[2]   the task's hash
-- KEYS[3]   where the ID goes: pending, scheduled or the group
-- KEYS[4]   groups
-- KEYS[5]   groups_due
-- KEYS[6]   marker
-- ARGV[1]   prefix of the task keys, to look up the holder of a lock
-- ARGV[2]   tick, unix milliseconds
-- ARGV[3]   unix milliseconds after which the call must do nothing
-- ARGV[4]   seconds to keep the record for
-- ARGV[5]   state to make the task in
-- ARGV[6]   id
-- ARGV[7]   msg
-- ARGV[8]   lock ("" = not unique)
-- ARGV[9]   TTL of the lock in seconds
-- ARGV[10]  time to process in unix seconds, if scheduled
-- ARGV[11]  name of the group ("" = none)
-- RETURN    {code, unix milliseconds}: OK, CONFLICT or DUPLICATE and when that was decided, now or by an earlier call;
--           STALE if a later tick is over, LOST if the call comes too late
-- BOUND     one task
--
-- When Redis is full the first write is refused, and nothing has been written: the tick is not over.
-- include: codes clock mark gather create

local last, code, at = string.match(redis.call("GET", KEYS[1]) or "", "^(%d+):(%d*):(%d*)$")
if last and tonumber(last) == tonumber(ARGV[2]) and code ~= "" then
  return { tonumber(code), tonumber(at) }
end
local now, us = clock()
local now_ns = nanoseconds(now, us)
local now_ms = now * 1000 + math.floor(us / 1000)
if last and tonumber(last) >= tonumber(ARGV[2]) then
  return { STALE, now_ms }
end
if now_ms > tonumber(ARGV[3]) then
  return { LOST, now_ms }
end
redis.call(ARGV[5] == "pending" and "LLEN" or "ZCARD", KEYS[3])
redis.call("SCARD", KEYS[4])
redis.call("ZCARD", KEYS[5])
local result = creatable(KEYS[2], ARGV[6], ARGV[8], ARGV[1], {})
if result == OK then
  if ARGV[5] == "pending" then
    create(KEYS[2], ARGV[6], ARGV[7], "pending", ARGV[8], ARGV[9], "pending_since", now_ns)
    redis.call("LPUSH", KEYS[3], ARGV[6])
    mark(KEYS[6])
  elseif ARGV[5] == "scheduled" then
    create(KEYS[2], ARGV[6], ARGV[7], "scheduled", ARGV[8], ARGV[9], ARGV[11] ~= "" and "group", ARGV[11])
    redis.call("ZADD", KEYS[3], ARGV[10], ARGV[6])
    if redis.call("ZRANGE", KEYS[3], 0, 0)[1] == ARGV[6] then
      mark(KEYS[6])
    end
  else
    create(KEYS[2], ARGV[6], ARGV[7], "aggregating", ARGV[8], ARGV[9], "group", ARGV[11])
    gather(KEYS[4], KEYS[5], { { KEYS[3], ARGV[11], ARGV[6] } }, now)
  end
end
redis.call("SET", KEYS[1], string.format("%s:%d:%.0f", ARGV[2], result, now_ms), "EX", ARGV[4])
return { result, now_ms }
