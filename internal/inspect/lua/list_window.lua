-- Reads a window of a list of tasks, with a field that distinguishes the entry from a later one of
-- the same task.
--
-- KEYS[1]  the list
-- ARGV[1]  prefix of the task keys
-- ARGV[2]  field that changes whenever a task enters the list: pending_since or token
-- ARGV[3]  "left" or "right": the end to start from
-- ARGV[4]  number of entries to skip
-- ARGV[5]  maximum number of entries to read
-- RETURN   {length of the list, then for each entry: id, the field ("" if there is none)}
-- BOUND    ARGV[5], at most 500
-- include: fields

local offset, n = tonumber(ARGV[4]), tonumber(ARGV[5])
local reply = { redis.call("LLEN", KEYS[1]) }
local page, first, last, step
if ARGV[3] == "left" then
  page = redis.call("LRANGE", KEYS[1], offset, offset + n - 1)
  first, last, step = 1, #page, 1
else
  page = redis.call("LRANGE", KEYS[1], -offset - n, -offset - 1)
  first, last, step = #page, 1, -1
end
for i = first, last, step do
  reply[#reply + 1] = page[i]
  reply[#reply + 1] = fields(ARGV[1] .. page[i], ARGV[2])[1] or ""
end
return reply
