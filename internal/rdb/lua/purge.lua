-- Deletes tasks that are no longer kept, with their hashes and locks.
--
-- KEYS[1]  completed, archived or a consumed set
-- KEYS[2]  spent_sets
-- ARGV[1]  prefix of the task keys
-- ARGV[2]  state of the tasks: "completed" deletes those whose retention has expired, "archived"
--          those that exceed the archive's size or age, "aggregating" all of a consumed set, which
--          was too large to be deleted by commit_aggregation
-- ARGV[3]  maximum number of tasks to delete
-- ARGV[4]  maximum number of archived tasks
-- ARGV[5]  maximum age of archived tasks in seconds
-- RETURN   {number of deleted tasks, number of tasks that remain in KEYS[1]}
-- BOUND    ARGV[3], at most 500
-- include: fields clock locks purge archive

redis.call("ZCARD", KEYS[2])
local now = clock()
local deleted
if ARGV[2] == "archived" then
  deleted = trim(KEYS[1], ARGV[1], now, tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[3]))
else
  local last = ARGV[2] == "completed" and now or "+inf"
  local ids = redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", last, "LIMIT", 0, ARGV[3])
  deleted = purge(KEYS[1], ARGV[1], ids, ARGV[2])
end
local left = redis.call("ZCARD", KEYS[1])
if ARGV[2] == "aggregating" and left == 0 then
  redis.call("ZREM", KEYS[2], KEYS[1])
end
return { deleted, left }
