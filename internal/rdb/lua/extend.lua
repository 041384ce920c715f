-- Extends the leases of tasks.
--
-- KEYS[1]    lease
-- KEYS[2..]  the task's hash, for each task
-- ARGV[1]    length of the lease from now, in seconds
-- ARGV[2..]  for each task: id, token
-- RETURN     for each task: OK, GONE or LOST
-- BOUND      500 tasks
--
-- The first write is ZREM, which is allowed at maxmemory.
-- include: codes fields clock held

redis.call("ZCARD", KEYS[1])
local now, us = clock()
local expiry = now + tonumber(ARGV[1]) + (us > 0 and 1 or 0)
local codes, ids, entries = {}, {}, {}
local a = 2
for k = 2, #KEYS do
  local code = held(KEYS[k], ARGV[a + 1], "")
  if code == OK then
    ids[#ids + 1] = ARGV[a]
    entries[#entries + 1] = expiry
    entries[#entries + 1] = ARGV[a]
  end
  codes[#codes + 1] = code
  a = a + 2
end
if #ids > 0 then
  redis.call("ZREM", KEYS[1], unpack(ids))
  redis.call("ZADD", KEYS[1], unpack(entries))
end
return codes
