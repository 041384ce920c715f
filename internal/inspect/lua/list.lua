-- Lists tasks in one state: a page of their collection, by offset or after an entry, which may no
-- longer exist.
--
-- KEYS[1]  the tasks' collection
-- KEYS[2]  lease
-- KEYS[3]  aggregation_sets
-- ARGV[1]  prefix of the task keys
-- ARGV[2]  order of the scan of KEYS[1]: "list" from the right, "rising" or "falling" for a sorted
--          set
-- ARGV[3]  number of entries to skip
-- ARGV[4]  score of the entry, from an earlier page; "" = by offset
-- ARGV[5]  id of the entry
-- ARGV[6]  maximum number of entries to scan
-- ARGV[7]  maximum bytes of the reply
-- ARGV[8]  1 to merge the aggregation sets of the group KEYS[1] with it, by score
-- RETURN   {unix nanoseconds now, 1 on the last page, then for each entry: see lib/entry.lua; the
--          score is nil in a list}
-- BOUND    ARGV[6], at most 200, and ARGV[7] with the excess of the last task; the first 1,000
--          aggregation sets of the queue
--
-- A task keeps its score when it is staged and when it returns to its group, so its position in the
-- merged order does not change.
-- include: fields clock expired entry position

-- number parses a score. The Lua of miniredis does not support the form 2e+9 or infinity.
local function number(score)
  return tonumber(score) or tonumber((string.gsub(score, "e", ".0e", 1))) or (score == "-inf" and -math.huge or math.huge)
end

local now, us = clock()
local offset, n, bytes = tonumber(ARGV[3]), tonumber(ARGV[6]), tonumber(ARGV[7])
local rising = ARGV[2] == "rising"
local ids, scores, whole = {}, {}, true

local function readList()
  local page = redis.call("LRANGE", KEYS[1], -offset - n, -offset - 1)
  for i = #page, 1, -1 do
    ids[#ids + 1] = page[i]
  end
  whole = #page < n
end

-- readSet reads n entries of a sorted set.
local function readSet(set)
  local from, page = offset, {}
  if ARGV[4] ~= "" then
    local before, there = position(set, ARGV[4], ARGV[5])
    from = rising and before + there or before
  elseif not rising then
    from = redis.call("ZCARD", set) - offset
  end
  if rising then
    page = redis.call("ZRANGE", set, from, from + n - 1, "WITHSCORES")
  elseif from > 0 then
    page = redis.call("ZRANGE", set, math.max(0, from - n), from - 1, "WITHSCORES")
  end
  local first, last, step = 1, #page - 1, 2
  if not rising then
    first, last, step = #page - 1, 1, -2
  end
  for i = first, last, step do
    ids[#ids + 1] = page[i]
    scores[#ids] = page[i + 1]
  end
  whole = whole and #page / 2 < n
end

if ARGV[2] == "list" then
  readList()
else
  local sets, prefix = { KEYS[1] }, KEYS[1] .. ":"
  for _, set in ipairs(ARGV[8] == "1" and redis.call("ZRANGE", KEYS[3], 0, 999) or {}) do
    -- The rest of the key is the set's own name, which contains no colon. Otherwise the set belongs
    -- to a group whose name is longer.
    if string.sub(set, 1, #prefix) == prefix and not string.find(set, ":", #prefix + 1, true) then
      sets[#sets + 1] = set
    end
  end
  n = math.min(n, math.max(5, math.floor(500 / #sets)))
  for _, set in ipairs(sets) do
    readSet(set)
  end
  if #sets > 1 then
    local entries = {}
    for i, id in ipairs(ids) do
      entries[i] = { id, scores[i], number(scores[i]) }
    end
    table.sort(entries, function(a, b)
      -- The Lua of miniredis cannot swap parameters.
      local x, y = rising and a or b, rising and b or a
      if x[3] ~= y[3] then
        return x[3] < y[3]
      end
      return precedes(x[1], y[1])
    end)
    for i, e in ipairs(entries) do
      ids[i], scores[i] = e[1], e[2]
    end
  end
end
local most = math.min(n, #ids)
local reply = { nanoseconds(now, us), whole and most == #ids and 1 or 0 }
for i = 1, most do
  bytes = bytes - addEntry(reply, ARGV[1] .. ids[i], ids[i], scores[i] or false, KEYS[2], now)
  if bytes <= 0 and i < most then
    reply[2] = 0
    break
  end
end
return reply
