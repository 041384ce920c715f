-- Ends tasks that succeeded and are not kept, and then takes others: done.lua and fetch.lua in one call, because most turns need
-- these two.
--
-- KEYS[1]     active
-- KEYS[2]     lease
-- KEYS[3]     processed, total
-- KEYS[4]     processed, today
-- KEYS[5]     pending
-- KEYS[6]     paused
-- KEYS[7]     marker
-- KEYS[8]     retry
-- KEYS[9..]   the task's hash, for each task to end
-- ARGV[1]     prefix of the task keys: the IDs to take are not known before
-- ARGV[2]     n
-- ARGV[3]     length of the lease in seconds
-- ARGV[4]     token
-- ARGV[5]     unix milliseconds after which nothing must be taken; 0 = never
-- ARGV[6]     how many tasks of the queue may be active on all servers together; 0 = any number; -1 = one, and none while
--             another waits for its retry
-- ARGV[7]     1 if the marker is to be left where tasks are left in pending and more may be active, else 0
-- ARGV[8]     1 if it is to be told how long the tasks have waited, else 0
-- ARGV[9]     TTL of the daily counter in seconds
-- ARGV[10]    length of the prefix of the task keys
-- ARGV[11]    tokens of the tasks to end, as for done.lua
-- ARGV[12..]  for each lock: number of its task, the lock
-- RETURN      {the answer of done.lua, the answer of fetch.lua or its error}: what was ended stays ended where nothing can be taken
-- BOUND       500 tasks to end; n, at most 500, to take, and of them a megabyte of messages and one message
-- include: codes fields clock mark counters locks active held finish take

local codes = finish(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[9], { unpack(KEYS, 9) }, ARGV[10], ARGV[11], { unpack(ARGV, 12) })
return {
  codes,
  take(KEYS[1], KEYS[2], KEYS[5], KEYS[6], KEYS[7], KEYS[8], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7],
    ARGV[8]),
}
