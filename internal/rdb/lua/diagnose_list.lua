-- Judges IDs in a part of a list that should not be there, and strikes out those that should not.
--
-- KEYS[1]    pending or active
-- KEYS[2]    lease
-- KEYS[3..]  the task's hash, for each task
-- ARGV[1]    1 to strike out, 0 to look only
-- ARGV[2]    state that the list stands for
-- ARGV[3]    index at which the part begins
-- ARGV[4]    how long it is, at most 2,000
-- ARGV[5..]  for each task: id
-- RETURN     for each task: what was found, and how many times it was struck out. An ID that has left the part is sound.
-- BOUND      200 tasks, and one scan of the list from its nearer end to the part
--
-- IDs in the middle of a list cannot be taken out by their index. They are overwritten by a text that is no ID, and one LREM, which
-- stops at the last of them, takes all of these out.
--
-- The first write is a ZREM of nothing: unlike LSET it works when Redis is full, and after it all others do.
-- include: fields findings places

local NOTHING = "asynq: struck out"
local first, n = tonumber(ARGV[3]), tonumber(ARGV[4])
local window = redis.pcall("LRANGE", KEYS[1], first, first + n - 1)
if window.err then
  redis.call("EXISTS", KEYS[1]) -- raises where the key is not served here now; see fields
  window = {}
end
local at = {}
for i, id in ipairs(window) do
  at[id] = at[id] or {}
  table.insert(at[id], first + i - 1)
end
local mends = ARGV[1] == "1" and usable(KEYS[2], "zset")
local reply, holes = {}, {}
local a = 5
for k = 3, #KEYS do
  local id, finding, times = ARGV[a], SOUND, 0
  if at[id] then
    local f = fields(KEYS[k], "state")
    if f[1] and STATES[f[1]] then
      if f[1] ~= ARGV[2] then
        finding = STRAY
      end
    elseif redis.call("TYPE", KEYS[k]).ok ~= "hash" then
      finding = DANGLING
    end
    if finding ~= SOUND and mends then
      for _, index in ipairs(at[id]) do
        holes[#holes + 1] = index
      end
      times = #at[id]
      at[id] = nil
    end
  end
  reply[#reply + 1] = finding
  reply[#reply + 1] = times
  a = a + 1
end
if #holes > 0 then
  redis.call("ZREM", KEYS[2], NOTHING)
  for _, index in ipairs(holes) do
    redis.call("LSET", KEYS[1], index, NOTHING)
  end
  local near = first < redis.call("LLEN", KEYS[1]) / 2
  redis.call("LREM", KEYS[1], near and #holes or -#holes, NOTHING)
end
return reply
