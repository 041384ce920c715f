-- Deletes uniqueness locks whose holder is gone.
--
-- KEYS[1..]  a lock, any number of them
-- ARGV[1]    prefix of the task keys
-- RETURN     how many were deleted
-- BOUND      500 locks
-- include: fields

local doomed = {}
for k = 1, #KEYS do
  local holder = redis.pcall("GET", KEYS[k])
  if type(holder) == "table" then
    redis.call("EXISTS", KEYS[k]) -- raises where the lock is not served here now; see fields
    holder = false
  end
  if not holder or not fields(ARGV[1] .. holder, "state")[1] then
    doomed[#doomed + 1] = KEYS[k]
  end
end
if #doomed > 0 then
  redis.call("UNLINK", unpack(doomed))
end
return #doomed
