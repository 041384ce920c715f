-- Judges IDs in a sorted set that should not be there, and strikes out those that should not.
--
-- KEYS[1]    a collection
-- KEYS[2..]  the task's hash, for each task
-- ARGV[1]    1 to strike out, 0 to look only
-- ARGV[2]    state that the collection stands for
-- ARGV[3]    name of the group that it holds tasks of, "" = none
-- ARGV[4..]  for each task: id
-- RETURN     for each task: what was found, 1 if the ID was struck out
-- BOUND      200 tasks
-- include: fields findings places

local reply, out = {}, {}
local a = 4
for k = 2, #KEYS do
  local id, finding = ARGV[a], SOUND
  local there = present("ZSCORE", KEYS[1], id)
  if there and there ~= "unknown" then
    local f = fields(KEYS[k], "state", "group")
    if f[1] == ARGV[2] then
      if ARGV[3] ~= "" and (f[2] or "") ~= ARGV[3] then
        finding = STRAY
      end
    elseif f[1] and STATES[f[1]] then
      finding = STRAY
    elseif redis.call("TYPE", KEYS[k]).ok ~= "hash" then
      finding = DANGLING
    end
    if finding ~= SOUND then
      out[#out + 1] = id
    end
  end
  reply[#reply + 1] = finding
  reply[#reply + 1] = finding ~= SOUND and tonumber(ARGV[1]) or 0
  a = a + 1
end
if #out > 0 and ARGV[1] == "1" then
  redis.call("ZREM", KEYS[1], unpack(out))
end
return reply
