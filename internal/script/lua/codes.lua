-- The result of a script for one task. script/code.go maps the codes to errors; no caller matches
-- texts.
local OK        = 0 -- done by this call
local ALREADY   = 1 -- done by an earlier attempt of the same call
local GONE      = 2 -- there is no such task
local LOST      = 3 -- the task is not held under this token
local CONFLICT  = 4 -- another task has this ID
local DUPLICATE = 5 -- another task holds the uniqueness lock
local STALE     = 6 -- the call ran too late
local PAUSED    = 7 -- the queue is paused
local CAPPED    = 8 -- the queue is at its limit of active tasks, or its order allows none now
local ACTIVE    = 9 -- the task is active
local STAGED    = 10 -- the task is being aggregated
local UNFIT     = 11 -- the state of the task does not allow it
local LATER     = 12 -- not done: the search budget of the call is used up
local CHANGED   = 13 -- the task has changed since the caller read it
local BROKEN    = 14 -- a key that the task needs is of another type
local NONEMPTY  = 15 -- the queue holds tasks
local FIRST     = 16 -- done, and the collection of the task was empty before
