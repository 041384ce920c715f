-- Deletes keys of a queue without active tasks. With force it pauses the queue, and deletes the
-- collections of its tasks, too.
--
-- KEYS[1]    active
-- KEYS[2]    paused
-- KEYS[3]    pending
-- KEYS[4]    scheduled
-- KEYS[5]    retry
-- KEYS[6]    archived
-- KEYS[7]    completed
-- KEYS[8]    groups
-- KEYS[9]    aggregation_sets
-- KEYS[10..] another key, any number of them
-- ARGV[1]    1 to force, 0 to delete nothing if there is a collection
-- RETURN     OK, ACTIVE (nothing is deleted) or NONEMPTY (there was a collection)
-- BOUND      500 keys
--
-- At maxmemory it cannot pause the queue, but no client can enqueue to it either.
-- include: codes clock

if redis.call("EXISTS", KEYS[1]) == 1 then
  return ACTIVE
end
local code = OK
if redis.call("EXISTS", KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]) > 0 then
  code = NONEMPTY
end
if ARGV[1] == "1" then
  redis.pcall("SET", KEYS[2], (clock()), "NX")
  redis.call("UNLINK", KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9])
elseif code ~= OK then
  return code
end
local toDelete = {}
for k = 10, #KEYS do
  toDelete[#toDelete + 1] = KEYS[k]
end
if #toDelete > 0 then
  redis.call("UNLINK", unpack(toDelete))
end
return code
