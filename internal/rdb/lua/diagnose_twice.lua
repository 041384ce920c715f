-- Judges an ID that a list seems to hold more than once, and leaves only the one that is nearest to the list's end: its place.
--
-- KEYS[1]  pending or active
-- KEYS[2]  the task's hash
-- ARGV[1]  1 to strike out, 0 to look only
-- ARGV[2]  state that the list stands for
-- ARGV[3]  id
-- RETURN   {what was found, 1 if it was mended}
-- BOUND    one task, and two scans of the list
-- include: fields findings

local found = redis.pcall("LPOS", KEYS[1], ARGV[3], "COUNT", 0)
if type(found) ~= "table" or found.err then
  redis.call("EXISTS", KEYS[1]) -- raises where the key is not served here now; see fields
  return { SOUND, 0 }
end
if #found < 2 or fields(KEYS[2], "state")[1] ~= ARGV[2] then
  return { SOUND, 0 }
end
if ARGV[1] ~= "1" then
  return { TWICE, 0 }
end
redis.call("LREM", KEYS[1], #found - 1, ARGV[3])
return { TWICE, 1 }
