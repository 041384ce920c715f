-- Deletes the archived tasks beyond the archive's size and age.
--
-- KEYS[1]  archived
-- ARGV[1]  prefix of the task keys
-- ARGV[2]  how many tasks the archive keeps
-- ARGV[3]  for how many seconds
-- ARGV[4]  how many to delete at most
-- RETURN   how many were deleted
-- BOUND    ARGV[4], at most 500
-- include: fields clock locks purge archive

local now = clock()
return trim(KEYS[1], ARGV[1], now, tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]))
