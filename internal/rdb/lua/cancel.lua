-- Asks all servers to cancel a task, once with what is to become of it and once without, as other libraries understand it. Whoever
-- begins to listen hears both or neither: between two commands it could hear only the second.
--
-- ARGV[1]  channel
-- ARGV[2]  ID of the task and what is to become of it
-- ARGV[3]  ID of the task
-- RETURN   1
-- BOUND    constant

redis.call("PUBLISH", ARGV[1], ARGV[2])
redis.call("PUBLISH", ARGV[1], ARGV[3])
return 1
