-- Adds groups to the index of due groups if they are missing or their entry is too late, because
-- other processes filled them or servers with other settings checked them.
--
-- KEYS[1]    groups_due
-- ARGV[1]    prefix of the group keys
-- ARGV[2]    seconds from now within which each group must be checked
-- ARGV[3]    number of tasks that makes a group due at once; 0 = none does
-- ARGV[4..]  the name, for each group
-- RETURN     number of groups whose check moved forward
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
