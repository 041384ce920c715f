-- Deletes tasks that were aggregated, of a set that is too large for the script that handed it over.
--
-- KEYS[1]  spent_sets
-- KEYS[2]  the set
-- ARGV[1]  prefix of the task keys
-- ARGV[2]  how many tasks at most
-- RETURN   how many are left
-- BOUND    ARGV[2], at most 500
-- include: fields locks purge

redis.call("ZCARD", KEYS[1])
local ids = redis.call("ZRANGE", KEYS[2], 0, ARGV[2] - 1)
local left = redis.call("ZCARD", KEYS[2]) - #ids
purge(KEYS[2], ARGV[1], ids, "aggregating")
if left == 0 then
  redis.call("ZREM", KEYS[1], KEYS[2])
end
return left
