-- Takes up to n tasks from pending and makes them active, with a lease, under the fetch's token.
--
-- KEYS[1]  active
-- KEYS[2]  lease
-- KEYS[3]  pending
-- KEYS[4]  paused
-- KEYS[5]  marker
-- KEYS[6]  retry
-- ARGV[1]  prefix of the task keys: the IDs are not known before
-- ARGV[2]  n
-- ARGV[3]  length of the lease in seconds
-- ARGV[4]  token
-- ARGV[5]  unix milliseconds after which the call must do nothing; 0 = never
-- ARGV[6]  how many tasks of the queue may be active on all servers together; 0 = any number; -1 = one, and none while another
--          waits for its retry
-- ARGV[7]  1 if the marker is to be left where tasks are left in pending and more may be active, else 0
-- ARGV[8]  1 if it is to be told how long the tasks have waited, else 0
-- RETURN   {code, unix milliseconds now, 1 if tasks are left in pending, then for each ID: id, msg or false, and if ARGV[8] is 1
--          microseconds in pending or -1}
--          code: OK, STALE, PAUSED or CAPPED. false: there was no task with that ID in pending state; the ID is dropped.
-- BOUND    n, at most 500; a megabyte of messages and one message
-- include: codes fields clock mark take

return take(KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7],
  ARGV[8])
