-- Publishes the cancellation of a task twice: with the requested outcome, and without it for other
-- libraries. A script makes the two messages atomic: a new subscriber receives both or neither.
--
-- ARGV[1]  channel
-- ARGV[2]  ID of the task and the requested outcome
-- ARGV[3]  ID of the task
-- RETURN   1
-- BOUND    constant

redis.call("PUBLISH", ARGV[1], ARGV[2])
redis.call("PUBLISH", ARGV[1], ARGV[3])
return 1
