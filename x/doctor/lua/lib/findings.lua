-- The findings of the doctor's scripts. doctor/finding.go has the text of each.
local SOUND       = "sound"       -- not broken, or no longer as it was when suspected
local DANGLING    = "dangling"    -- a collection contains an ID without a task
local MISPLACED   = "misplaced"   -- a collection contains a task of another state or group
local TWICE       = "twice"       -- a list contains an ID more than once
local ORPHAN      = "orphan"      -- a task is not in the collection of its state
local UNLEASED    = "unleased"    -- a task is active and has no lease
local UNREADABLE  = "unreadable"  -- the message of a task that has not run cannot be decoded
local STATELESS   = "stateless"   -- the state of a task is invalid
local WRONG_TYPE  = "wrong type"  -- the key of a task is not a hash
local ORPHAN_LOCK = "orphan lock" -- the holder of a lock does not exist or does not reference it
local UNNAMED     = "unnamed"     -- a group has tasks, and the set of groups lacks its name
local EMPTY_NAME  = "empty name"  -- the set of groups contains a group without tasks
local UNLISTED    = "unlisted"    -- aggregation_sets lacks an aggregation set with tasks
local PLACELESS   = "placeless"   -- a held task has no place in its partition
local STALE_PLACE = "stale place" -- a partition has a place for a task that is not held there
local UNSERVED    = "unserved"    -- ready and blocked lack a partition with held tasks
local EMPTY_SET   = "empty set"   -- aggregation_sets contains a set without tasks
