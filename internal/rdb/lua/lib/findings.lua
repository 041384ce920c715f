-- What the doctor's scripts find. rdb/doctor_call.go has the same numbers, and the words.
local SOUND       = 0  -- nothing is broken, or it is no longer as it was seen
local DANGLING    = 1  -- a collection holds the ID of no task
local STRAY       = 2  -- a collection holds the ID of a task whose state or group names another one
local TWICE       = 3  -- a list holds an ID more than once
local ORPHAN      = 4  -- a task is not in the collection of its state
local UNLEASED    = 5  -- a task is active and has no lease
local UNREADABLE  = 6  -- a task that is yet to run cannot be read
local STATELESS   = 7  -- a task's state is none that there is
local WRONG_TYPE  = 8  -- a task's key holds no hash
local ORPHAN_LOCK = 9  -- a lock's holder is gone, or does not know of the lock
local UNNAMED     = 10 -- a group has tasks, and the set of groups lacks its name
local EMPTY_NAME  = 11 -- the set of groups names a group without tasks
local UNLISTED    = 12 -- tasks are staged in an aggregation set that aggregation_sets lacks
local EMPTY_SET   = 13 -- aggregation_sets lists a set without tasks
