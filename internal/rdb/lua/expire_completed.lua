-- Deletes completed tasks whose retention is over.
--
-- KEYS[1]  completed
-- ARGV[1]  prefix of the task keys
-- ARGV[2]  how many at most
-- RETURN   how many were deleted
-- BOUND    ARGV[2], at most 500
-- include: fields clock locks purge

local now = clock()
local ids = redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", now, "LIMIT", 0, ARGV[2])
return purge(KEYS[1], ARGV[1], ids, "completed")
