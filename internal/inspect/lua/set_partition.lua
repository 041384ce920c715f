-- Replaces the settings of a partition, so that servers check its limits at once.
--
-- KEYS[1]  partitions:settings
-- KEYS[2]  partitions:blocked
-- KEYS[3]  marker
-- ARGV[1]  key of the partition
-- ARGV[2]  its settings; "" = none of its own
-- RETURN   1 if it had settings, else 0
-- BOUND    one partition
-- include: mark

redis.call("ZCARD", KEYS[2])
local had
if ARGV[2] == "" then
  had = redis.call("HDEL", KEYS[1], ARGV[1])
else
  had = 1 - redis.call("HSET", KEYS[1], ARGV[1], ARGV[2])
end
if redis.call("ZSCORE", KEYS[2], ARGV[1]) then
  redis.call("ZADD", KEYS[2], "0", ARGV[1])
end
mark(KEYS[3])
return had
