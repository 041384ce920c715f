-- Begins or continues the removal of a queue together with its tasks: no server may take one of them meanwhile. A pause that is not
-- the removal's own stays as it is; the removal's own ends by itself, in case that the removal does not come to its end. A Redis
-- that is full refuses it: the removal goes on, and finds out in the end if a task was taken.
--
-- KEYS[1]  active
-- KEYS[2]  paused
-- ARGV[1]  for how many seconds
-- RETURN   OK or ACTIVE
-- BOUND    constant
-- include: codes clock

if redis.call("EXISTS", KEYS[1]) == 1 then
  return ACTIVE
end
if redis.call("TTL", KEYS[2]) > 0 then
  redis.call("EXPIRE", KEYS[2], ARGV[1])
else
  redis.pcall("SET", KEYS[2], (clock()), "NX", "EX", ARGV[1])
end
return OK
