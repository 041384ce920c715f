-- Judges whether the set of groups names a group if and only if it has tasks, and aggregation_sets an aggregation set.
--
-- KEYS[1]  groups
-- KEYS[2]  aggregation_sets
-- KEYS[3]  spent_sets
-- KEYS[4]  the group or aggregation set
-- ARGV[1]  1 to mend, 0 to look only
-- ARGV[2]  name of the group
-- ARGV[3]  name of the group that the key would be an aggregation set of, "" = none
-- ARGV[4]  prefix of the task keys
-- RETURN   {what was found, 1 if it was mended}
-- BOUND    one group, of which 100 tasks are looked at
--
-- The key of a group named a:b may as well be that of a set of group a. Where neither list has it, its tasks tell: they know their
-- group.
-- include: fields clock findings places

local named, listed = present("SISMEMBER", KEYS[1], ARGV[2]), present("ZSCORE", KEYS[2], KEYS[4])
if named == "unknown" or listed == "unknown" or present("ZSCORE", KEYS[3], KEYS[4]) then
  return { SOUND, 0 }
end
local mend = ARGV[1] == "1"
if redis.call("EXISTS", KEYS[4]) == 0 then
  local finding = SOUND
  if listed then
    finding = EMPTY_SET
  elseif named == 1 then
    finding = EMPTY_NAME
  end
  if mend and listed then
    redis.call("ZREM", KEYS[2], KEYS[4])
  end
  if mend and named == 1 then
    redis.call("SREM", KEYS[1], ARGV[2])
  end
  return { finding, finding ~= SOUND and mend and 1 or 0 }
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
  if mend then
    redis.call("ZADD", KEYS[2], now, KEYS[4])
  end
  return { UNLISTED, mend and 1 or 0 }
end
if mend then
  redis.call("SADD", KEYS[1], ARGV[2])
end
return { UNNAMED, mend and 1 or 0 }
