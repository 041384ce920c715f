-- LONG is the length of the active list from which on fetches store the positions of IDs. See
-- removeFromLong in lib/active.lua.
local LONG = 2000
