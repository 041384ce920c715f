-- Extends the time for which aggregation sets belong to their aggregators.
--
-- KEYS[1]    aggregation_sets
-- ARGV[1]    seconds from now
-- ARGV[2..]  the set's key, for each set
-- RETURN     number of sets that still exist
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
