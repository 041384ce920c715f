-- Ends tasks that succeeded and are not kept: the task and its lock are deleted.
--
-- KEYS[1]    active
-- KEYS[2]    lease
-- KEYS[3]    processed, total
-- KEYS[4]    processed, today
-- KEYS[5..]  the task's hash, for each task
-- ARGV[1]    TTL of the daily counter in seconds
-- ARGV[2]    length of the prefix of the task keys; the rest is the ID
-- ARGV[3]    tokens of the tasks, in their order: token*number of its tasks, with blanks in between
-- ARGV[4..]  for each lock: number of its task, the lock
-- RETURN     OK if all tasks are, else for each task: OK, ALREADY, GONE or LOST. GONE is the answer to a repeated call.
-- BOUND      500 tasks
-- include: codes fields counters locks active held finish

return finish(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], { unpack(KEYS, 5) }, ARGV[2], ARGV[3], { unpack(ARGV, 4) })
