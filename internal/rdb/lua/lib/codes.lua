-- What a script answers for each task. rdb/codes.go turns them into errors; nothing matches texts.
local OK        = 0 -- done by this call
local ALREADY   = 1 -- an earlier try of the same call did it
local GONE      = 2 -- there is no such task
local LOST      = 3 -- the task is not, or no longer, held under this token
local CONFLICT  = 4 -- another task has this ID
local DUPLICATE = 5 -- another task holds the uniqueness lock
local STALE     = 6 -- the call was executed too late
local PAUSED    = 7 -- the queue is paused
local CAPPED    = 8 -- as many tasks are active as the queue allows, or its order forbids to take one now
local ACTIVE    = 9 -- the task is being processed
local STAGED    = 10 -- the task is being aggregated
local UNFIT     = 11 -- this cannot be done to a task in its state
local LATER     = 12 -- nothing was done: the call has searched as much as it may at once
local CHANGED   = 13 -- the task is not as the caller read it
local BROKEN    = 14 -- a key that the task needs holds something else
local NONEMPTY  = 15 -- the queue holds tasks
