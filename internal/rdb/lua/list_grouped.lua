-- Lists the tasks of a group and of its aggregation sets, as if all were one sorted set, that come after an entry which may be gone.
--
-- KEYS[1]  the group
-- KEYS[2]  aggregation_sets
-- ARGV[1]  prefix of the task keys
-- ARGV[2]  score of the entry, as an earlier page had it; "" = from the start
-- ARGV[3]  id of the entry
-- ARGV[4]  how many entries to look at
-- ARGV[5]  bytes after which to stop
-- RETURN   {1 if there are no entries after these, unix nanoseconds now, then for each entry:
--           id, score, msg, result, pending_since, group}, as lib/look.lua says
-- BOUND    ARGV[4], at most 200, and ARGV[5] with what the last task goes beyond; the first 1,000 aggregation sets of the queue
--
-- A task keeps its score when it is staged, and when it falls back to its group. So its place in the whole stays the same.
-- include: fields clock look place

-- number reads a score. The Lua of miniredis does not know the form 2e+9, nor infinity.
local function number(score)
  return tonumber(score) or tonumber((string.gsub(score, "e", ".0e", 1))) or (score == "-inf" and -math.huge or math.huge)
end

local now_ns = nanoseconds(clock())
local n, bytes = tonumber(ARGV[4]), tonumber(ARGV[5])
local sets, prefix = { KEYS[1] }, KEYS[1] .. ":"
for _, set in ipairs(redis.call("ZRANGE", KEYS[2], 0, 999)) do
  -- The rest of the key is the set's own name, which has no colon, or the set is of a group whose name goes on after ours.
  if string.sub(set, 1, #prefix) == prefix and not string.find(set, ":", #prefix + 1, true) then
    sets[#sets + 1] = set
  end
end
n = math.min(n, math.max(5, math.floor(500 / #sets)))

local entries, whole = {}, true
for _, set in ipairs(sets) do
  local from = 0
  if ARGV[2] ~= "" then
    local before, there = place(set, ARGV[2], ARGV[3])
    from = before + there
  end
  local page = redis.call("ZRANGE", set, from, from + n - 1, "WITHSCORES")
  whole = whole and #page / 2 < n
  for i = 1, #page, 2 do
    entries[#entries + 1] = { page[i], page[i + 1], number(page[i + 1]) }
  end
end
if #sets > 1 then
  table.sort(entries, function(a, b)
    if a[3] ~= b[3] then
      return a[3] < b[3]
    end
    return precedes(a[1], b[1])
  end)
end
local most = math.min(n, #entries)
local reply = { whole and most == #entries and 1 or 0, now_ns }
for i = 1, most do
  local e = entries[i]
  bytes = bytes - look(reply, ARGV[1] .. e[1], e[1], "aggregating", e[2])
  if bytes <= 0 and i < most then
    reply[1] = 0
    break
  end
end
return reply
