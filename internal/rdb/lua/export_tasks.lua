-- Tells all that is kept of tasks, each at one moment.
--
-- KEYS[1]    scheduled
-- KEYS[2]    retry
-- KEYS[3]    archived
-- KEYS[4]    completed
-- KEYS[5..]  the task's hash, for each task
-- ARGV[1]    prefix of the group keys
-- ARGV[2]    bytes after which to stop
-- ARGV[3..]  for each task: id
-- RETURN     {unix nanoseconds now, then for each task that was looked up:
--             state or false if there is none, msg, score or false, result, pending_since, group, unique_key,
--             milliseconds for which the task holds its lock or -1}
-- BOUND      200 tasks, and ARGV[2] with what the last task goes beyond
-- include: fields clock locks

local reply = { nanoseconds(clock()) }
local sets = { scheduled = KEYS[1], retry = KEYS[2], archived = KEYS[3], completed = KEYS[4] }
local bytes = tonumber(ARGV[2])
local a = 3
for k = 5, #KEYS do
  local id = ARGV[a]
  a = a + 1
  local f = fields(KEYS[k], "state", "msg", "result", "pending_since", "group", "unique_key")
  local set, score, ttl = sets[f[1] or ""], false, -1
  if f[1] == "aggregating" then
    set = ARGV[1] .. (f[5] or "")
  end
  if set then
    score = redis.pcall("ZSCORE", set, id)
    if type(score) == "table" then
      redis.call("EXISTS", set) -- raises where the key is not served here now; see fields
      score = false
    end
  end
  if owns(f[6], id) then
    ttl = redis.call("PTTL", f[6])
  end
  for _, v in ipairs({ f[1] or false, f[2] or "", score, f[3] or false, f[4] or false, f[5] or false, f[6] or false, ttl }) do
    reply[#reply + 1] = v
  end
  bytes = bytes - #(f[2] or "") - #(f[3] or "")
  if bytes <= 0 then
    break
  end
end
return reply
