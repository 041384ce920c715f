-- Lists a page of the tasks in one state, by its offset.
--
-- KEYS[1]  the tasks' collection
-- KEYS[2]  lease
-- ARGV[1]  prefix of the task keys
-- ARGV[2]  the state that KEYS[1] stands for
-- ARGV[3]  how KEYS[1] is read: "list" from the right, "rising" or "falling" a sorted set
-- ARGV[4]  how many entries to pass over
-- ARGV[5]  how many entries to look at
-- ARGV[6]  bytes after which to stop
-- RETURN   {1 if there are no entries after these, unix nanoseconds now, then for each entry:
--           id, score or (of an active task) 1 if its lease has ended and 0 if not, msg, result, pending_since, group},
--          as lib/look.lua says
-- BOUND    ARGV[5], at most 200, and ARGV[6] with what the last task goes beyond
-- include: fields clock expired look

local now, us = clock()
local now_ns = nanoseconds(now, us)
local offset, n, bytes = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local page, first, last, step
if ARGV[3] == "list" then
  page = redis.call("LRANGE", KEYS[1], -offset - n, -offset - 1)
  first, last, step = #page, 1, -1
else
  page = redis.call(ARGV[3] == "rising" and "ZRANGE" or "ZREVRANGE", KEYS[1], offset, offset + n - 1, "WITHSCORES")
  first, last, step = 1, #page, 2
end
local reply = { #page / math.abs(step) < n and 1 or 0, now_ns }
for i = first, last, step do
  local id, extra = page[i], page[i + 1]
  if step < 0 then
    extra = ARGV[2] == "active" and expired(KEYS[2], id, now) and 1 or 0
  end
  bytes = bytes - look(reply, ARGV[1] .. id, id, ARGV[2], extra)
  if bytes <= 0 and math.abs(i - last) >= math.abs(step) then
    reply[1] = 0
    break
  end
end
return reply
