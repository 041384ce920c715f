-- What a script answers for each task. rdb/codes.go turns them into errors; nothing matches texts.
local OK        = 0 -- done by this call
local ALREADY   = 1 -- an earlier try of the same call did it
local GONE      = 2 -- there is no such task
local LOST      = 3 -- the task is not, or no longer, held under this token
local CONFLICT  = 4 -- another task has this ID
local DUPLICATE = 5 -- another task holds the uniqueness lock
local STALE     = 6 -- the call was executed too late
local PAUSED    = 7 -- the queue is paused
local CAPPED    = 8 -- as many tasks are active as the queue allows
