-- Checks that the set of groups contains the name of a group if and only if it has tasks, and that
-- aggregation_sets contains an aggregation set if and only if it has tasks. Repairs it if not.
--
-- KEYS[1]  groups
-- KEYS[2]  aggregation_sets
-- KEYS[3]  spent_sets
-- KEYS[4]  the group or aggregation set
-- ARGV[1]  1 to repair, 0 to report
-- ARGV[2]  name of the group
-- ARGV[3]  name of the group whose aggregation set the key would be, "" = none
-- ARGV[4]  prefix of the task keys
-- RETURN   {finding, 1 if repaired}
-- BOUND    one group, of which 100 tasks are read
--
-- The key of a group named a:b can also be the key of a set of group a. If neither list contains
-- it, the tasks decide: they store the name of their group.
-- include: fields clock findings collections

local named, listed = contains("SISMEMBER", KEYS[1], ARGV[2]), contains("ZSCORE", KEYS[2], KEYS[4])
if named == "unknown" or listed == "unknown" or contains("ZSCORE", KEYS[3], KEYS[4]) then
  return { SOUND, 0 }
end
local fix = ARGV[1] == "1"
if redis.call("EXISTS", KEYS[4]) == 0 then
  local finding = SOUND
  if listed then
    finding = EMPTY_SET
  elseif named == 1 then
    finding = EMPTY_NAME
  end
  if fix and listed then
    redis.call("ZREM", KEYS[2], KEYS[4])
  end
  if fix and named == 1 then
    redis.call("SREM", KEYS[1], ARGV[2])
  end
  return { finding, finding ~= SOUND and fix and 1 or 0 }
end
if named == 1 or listed or not usable(KEYS[4], "zset") then
  return { SOUND, 0 }
end
local now = clock()
local isSet = false
if ARGV[3] ~= "" then
  for _, id in ipairs(redis.call("ZRANGE", KEYS[4], 0, 99)) do
    local group = fields(ARGV[4] .. id, "group")[1]
    if group == ARGV[2] then
      isSet = false
      break
    elseif group == ARGV[3] then
      isSet = true
    end
  end
end
if isSet then
  if fix then
    redis.call("ZADD", KEYS[2], now, KEYS[4])
  end
  return { UNLISTED, fix and 1 or 0 }
end
if fix then
  redis.call("SADD", KEYS[1], ARGV[2])
end
return { UNNAMED, fix and 1 or 0 }
