-- Lists the tasks of a sorted set that come after an entry which may be gone.
--
-- KEYS[1]  the tasks' collection
-- ARGV[1]  prefix of the task keys
-- ARGV[2]  the state that KEYS[1] stands for
-- ARGV[3]  "rising" or "falling": which way to go through the set
-- ARGV[4]  score of the entry, as an earlier page had it; "" = from the start
-- ARGV[5]  id of the entry
-- ARGV[6]  how many entries to look at
-- ARGV[7]  bytes after which to stop
-- RETURN   {1 if there are no entries after these, unix nanoseconds now, then for each entry:
--           id, score, msg, result, pending_since, group}, as lib/look.lua says
-- BOUND    ARGV[6], at most 200, and ARGV[7] with what the last task goes beyond
-- include: fields clock look place

local now_ns = nanoseconds(clock())
local n, bytes = tonumber(ARGV[6]), tonumber(ARGV[7])
local rising, from = ARGV[3] == "rising", 0
if ARGV[4] ~= "" then
  local before, there = place(KEYS[1], ARGV[4], ARGV[5])
  from = rising and before + there or before
elseif not rising then
  from = redis.call("ZCARD", KEYS[1])
end
local page = {}
if rising then
  page = redis.call("ZRANGE", KEYS[1], from, from + n - 1, "WITHSCORES")
elseif from > 0 then
  page = redis.call("ZRANGE", KEYS[1], math.max(0, from - n), from - 1, "WITHSCORES")
end
local first, last, step = 1, #page - 1, 2
if not rising then
  first, last, step = #page - 1, 1, -2
end
local reply = { #page / 2 < n and 1 or 0, now_ns }
for i = first, last, step do
  bytes = bytes - look(reply, ARGV[1] .. page[i], page[i], ARGV[2], page[i + 1])
  if bytes <= 0 and i ~= last then
    reply[1] = 0
    break
  end
end
return reply
