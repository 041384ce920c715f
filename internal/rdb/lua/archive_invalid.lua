-- Archives a staged task that cannot be decoded.
--
-- KEYS[1]  the set
-- KEYS[2]  archived
-- KEYS[3]  the task's hash
-- ARGV[1]  id
-- ARGV[2]  prefix of the task keys, to delete trimmed tasks
-- ARGV[3]  maximum number of archived tasks
-- ARGV[4]  maximum age of archived tasks in seconds
-- RETURN   OK, or GONE if no such task is in the set: it may be back in its group
-- BOUND    one task, and 500 trimmed
-- include: codes fields clock locks purge archive

redis.call("ZCARD", KEYS[2])
local staged = redis.call("ZSCORE", KEYS[1], ARGV[1]) and fields(KEYS[3], "state")[1] == "aggregating"
local now = clock()
redis.call("ZREM", KEYS[1], ARGV[1])
if not staged then
  return GONE
end
redis.call("ZADD", KEYS[2], now, ARGV[1])
redis.call("HSET", KEYS[3], "state", "archived")
trim(KEYS[2], ARGV[2], now, tonumber(ARGV[3]), tonumber(ARGV[4]), 500)
return OK
