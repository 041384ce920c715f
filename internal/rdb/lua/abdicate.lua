-- Gives up the lead of a scheduler group, so that another takes it without waiting for the end of the lease.
--
-- KEYS[1]  scheduler group
-- ARGV[1]  who gives it up
-- RETURN   OK, or LOST if the caller does not lead
-- BOUND    one group
--
-- HDEL comes first: it works when Redis is full, and then all others do.
-- include: codes clock

if redis.call("HGET", KEYS[1], "leader") ~= ARGV[1] then
  return LOST
end
local now, us = clock()
redis.call("HDEL", KEYS[1], "leader")
redis.call("HSET", KEYS[1], "until", string.format("%.0f", now * 1000 + math.floor(us / 1000)))
return OK
