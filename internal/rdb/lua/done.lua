-- Settles attempts that succeeded and whose tasks are not retained: deletes each task and its lock.
--
-- KEYS[1]    active
-- KEYS[2]    lease
-- KEYS[3]    processed, total
-- KEYS[4]    processed, today
-- KEYS[5]    pending
-- KEYS[6]    marker
-- KEYS[7..]  the task's hash, for each task
-- ARGV[1]    TTL of the daily counter in seconds
-- ARGV[2]    length of the prefix of the task keys, before the ID
-- ARGV[3]    tokens of the tasks, in order: token*count, separated by spaces
-- ARGV[4]    1 to set the marker if tasks are pending, because the queue has a limit, else 0
-- ARGV[5..]  for each lock: number of its task, the lock. In the variant done_members, whose tasks
--            have no locks: number of tasks, name of their part, in the order of KEYS
-- RETURN     OK if all tasks are, else for each task: OK, ALREADY, GONE or LOST. A repeated call
--            returns GONE.
-- BOUND      500 tasks
-- include: codes fields mark counters locks long active held finish
-- members: -- include: clock member

local tasks, locks = { unpack(KEYS, 7) }, { unpack(ARGV, 5) }
-- members: local parts = locks
-- members: locks = {}
local codes, done, ids = finish(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], tasks, ARGV[2], ARGV[3], locks)
-- members: countDone(parts, codes, tasks, ARGV[2], ids)
if ARGV[4] == "1" and done > 0 and redis.call("EXISTS", KEYS[5]) == 1 then
  mark(KEYS[6])
end
return codes
