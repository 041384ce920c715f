-- Returns what Redis stores about tasks, each task at one moment.
--
-- KEYS[1]    scheduled
-- KEYS[2]    retry
-- KEYS[3]    archived
-- KEYS[4]    completed
-- KEYS[5]    lease
-- KEYS[6..]  the task's hash, for each task
-- ARGV[1]    prefix of the task keys
-- ARGV[2]    prefix of the group keys
-- ARGV[3]    maximum bytes of the reply
-- RETURN     {unix nanoseconds now, then for each task that was looked up: see lib/entry.lua; the
--            further fields are progress, token, settled and unique_key, and after them the fields
--            and values of its log, each a line, and the milliseconds until its lock expires, or -1
--            if it holds none}
-- BOUND      200 tasks, and ARGV[3] with the excess of the last task
-- include: fields clock expired entry locks

-- readLog(task) returns the fields of the log and their values.
local function readLog(task)
  local lines, cursor = {}, "0"
  repeat
    local page = redis.call("HSCAN", task, cursor, "MATCH", "log:*", "COUNT", "1000")
    cursor = page[1]
    for _, line in ipairs(page[2]) do
      lines[#lines + 1] = line
    end
  until cursor == "0"
  return table.concat(lines, "\n")
end

local now, us = clock()
local reply = { nanoseconds(now, us) }
local sets = { scheduled = KEYS[1], retry = KEYS[2], archived = KEYS[3], completed = KEYS[4] }
local bytes = tonumber(ARGV[3])
for k = 6, #KEYS do
  local id, n = string.sub(KEYS[k], #ARGV[1] + 1), #reply
  local size, state = addEntry(reply, KEYS[k], id, false, KEYS[5], now, "progress", "token", "settled", "unique_key")
  local set, lock = sets[state or ""], reply[#reply]
  if state == "aggregating" then
    set = ARGV[2] .. (reply[n + 8] or "")
  end
  if set then
    local score = redis.pcall("ZSCORE", set, id)
    if type(score) == "table" then
      redis.call("EXISTS", set) -- raises if this node does not serve the key; see fields
    else
      reply[n + 3] = score
    end
  end
  local log = state and readLog(KEYS[k]) or ""
  reply[#reply + 1] = log ~= "" and log
  reply[#reply + 1] = owns(lock, id) and redis.call("PTTL", lock) or -1
  bytes = bytes - size - #log
  if bytes <= 0 then
    break
  end
end
return reply
