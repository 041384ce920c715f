-- Replaces the settings of a partition, so that servers check its limits at once. A repeated call
-- changes nothing.
--
-- KEYS[1]  partitions:settings
-- KEYS[2]  partitions:blocked
-- KEYS[3]  marker
-- ARGV[1]  key of the partition
-- ARGV[2]  its settings; "" = none of its own
-- ARGV[3]  1 to replace only the settings ARGV[4], else 0
-- ARGV[4]  the settings as the caller has read them; "" = none of its own
-- RETURN   OK or CHANGED
-- BOUND    one partition
-- include: codes mark

redis.call("ZCARD", KEYS[2])
if ARGV[3] == "1" then
  local now = redis.call("HGET", KEYS[1], ARGV[1]) or ""
  if now ~= ARGV[4] and now ~= ARGV[2] then
    return CHANGED
  end
end
if ARGV[2] == "" then
  redis.call("HDEL", KEYS[1], ARGV[1])
else
  redis.call("HSET", KEYS[1], ARGV[1], ARGV[2])
end
if redis.call("ZSCORE", KEYS[2], ARGV[1]) then
  redis.call("ZADD", KEYS[2], "0", ARGV[1])
end
mark(KEYS[3])
return OK
