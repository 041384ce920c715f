-- Keeps aggregation sets from falling back to their groups.
--
-- KEYS[1]    aggregation_sets
-- ARGV[1]    for how many seconds from now
-- ARGV[2..]  the set's key, for each set
-- RETURN     how many of the sets are still there
-- BOUND      500 sets
-- include: clock

local now = clock()
local n = 0
for i = 1, #ARGV - 1 do
  if redis.call("ZSCORE", KEYS[1], ARGV[i + 1]) then
    redis.call("ZADD", KEYS[1], now + ARGV[1], ARGV[i + 1])
    n = n + 1
  end
end
return n
