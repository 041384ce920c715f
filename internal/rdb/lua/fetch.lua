-- Moves up to n tasks from pending to active, with a lease, under the token of the fetch.
--
-- KEYS[1]  active
-- KEYS[2]  lease
-- KEYS[3]  pending
-- KEYS[4]  paused
-- KEYS[5]  marker
-- KEYS[6]  retry
-- ARGV[1]  prefix of the task keys; the IDs are not known in advance
-- ARGV[2]  n
-- ARGV[3]  length of the lease in seconds
-- ARGV[4]  token
-- ARGV[5]  unix milliseconds after which the call does nothing; 0 = never
-- ARGV[6]  maximum number of active tasks of the queue on all servers; 0 = unlimited; -1 = one, and
--          none while another waits for its retry
-- ARGV[7]  1 to set the marker if tasks remain pending and more may be active, else 0
-- ARGV[8]  1 to return the waiting times of the tasks, else 0
-- ARGV[9]  1 to return the length of a message of more than 64 kB in its place, else 0
-- RETURN   {code, unix milliseconds now, 1 if tasks remain pending, then for each ID: id, msg,
--          length or false, and if ARGV[8] is 1 microseconds in pending or -1} code: OK, STALE,
--          PAUSED or CAPPED. false: no pending task has the ID, and the ID is dropped.
-- BOUND    n, at most 500; a megabyte of messages and one message; a length counts an eighth
-- include: codes fields clock mark long waited add take

return take(KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7],
  ARGV[8], ARGV[9])
