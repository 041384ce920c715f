-- Lets an aggregator look at groups that the index does not name, or names for later than it can be: other processes filled them, or
-- servers with other settings looked at them.
--
-- KEYS[1]    groups_due
-- ARGV[1]    prefix of the group keys
-- ARGV[2]    seconds from now within which each group is to be looked at
-- ARGV[3]    tasks that make a group due at once; 0 = any number does not
-- ARGV[4..]  the name, for each group
-- RETURN     how many groups are looked at sooner
-- BOUND      500 groups
-- include: clock

local now = clock()
local size = tonumber(ARGV[3])
local looks = {}
for i = 1, #ARGV - 3 do
  local at = tonumber(redis.call("ZSCORE", KEYS[1], ARGV[i + 3]) or 1 / 0)
  if at > now + ARGV[2] or size > 0 and at > now and redis.call("ZCARD", ARGV[1] .. ARGV[i + 3]) >= size then
    looks[#looks + 1] = now
    looks[#looks + 1] = ARGV[i + 3]
  end
end
if #looks > 0 then
  redis.call("ZADD", KEYS[1], unpack(looks))
  redis.call("EXPIRE", KEYS[1], 3600)
end
return #looks / 2
