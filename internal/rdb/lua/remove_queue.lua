-- Deletes what a queue has apart from tasks, if it has none.
--
-- KEYS[1]    pending
-- KEYS[2]    active
-- KEYS[3]    scheduled
-- KEYS[4]    retry
-- KEYS[5]    archived
-- KEYS[6]    completed
-- KEYS[7]    groups
-- KEYS[8]    aggregation_sets
-- KEYS[9..]  another key, any number of them
-- RETURN     OK, ACTIVE or NONEMPTY
-- BOUND      500 keys
-- include: codes

if redis.call("EXISTS", KEYS[2]) == 1 then
  return ACTIVE
end
if redis.call("EXISTS", KEYS[1], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]) > 0 then
  return NONEMPTY
end
local doomed = {}
for k = 9, #KEYS do
  doomed[#doomed + 1] = KEYS[k]
end
redis.call("UNLINK", unpack(doomed))
return OK
