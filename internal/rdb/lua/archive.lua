-- Puts tasks that must not be tried again into the archive, and trims it.
--
-- KEYS[1]    active
-- KEYS[2]    lease
-- KEYS[3]    archived
-- KEYS[4]    processed, total
-- KEYS[5]    processed, today
-- KEYS[6]    failed, total
-- KEYS[7]    failed, today
-- KEYS[8..]  the task's hash, for each task
-- ARGV[1]    TTL of the daily counters in seconds
-- ARGV[2]    prefix of the task keys, to delete what is trimmed
-- ARGV[3]    how many tasks the archive keeps
-- ARGV[4]    for how many seconds
-- ARGV[5]    name of a recovery, which takes only tasks whose lease has ended; "" = the holder's own call
-- ARGV[6..]  for each task: id, token, msg ("" = as it is), 1 if the attempt counts as processed and failed, else 0
-- RETURN     for each task: OK, ALREADY, GONE or LOST
-- BOUND      500 tasks, and as many trimmed
-- include: codes fields clock counters locks active held purge archive expired

redis.call("ZCARD", KEYS[3])
local now = clock()
local by = ARGV[5] ~= "" and ARGV[5] or nil
local codes, ids, entries = {}, {}, {}
local writes, failures = {}, 0
local a = 6
for k = 8, #KEYS do
  local id = ARGV[a]
  local code = held(KEYS[k], ARGV[a + 1], by)
  if code == OK and by and not expired(KEYS[2], id, now) then
    code = LOST
  end
  if code == OK then
    ids[#ids + 1] = id
    writes[#writes + 1] = { KEYS[k], by or ARGV[a + 1], ARGV[a + 2] }
    entries[#entries + 1] = now
    entries[#entries + 1] = id
    failures = failures + tonumber(ARGV[a + 3])
  end
  codes[#codes + 1] = code
  a = a + 4
end
if #ids > 0 then
  strike(KEYS[1], KEYS[2], ids)
  redis.call("ZADD", KEYS[3], unpack(entries))
  for _, w in ipairs(writes) do
    settle(w[1], w[2], w[3], "archived")
  end
  count(KEYS[4], KEYS[5], failures, ARGV[1])
  count(KEYS[6], KEYS[7], failures, ARGV[1])
  trim(KEYS[3], ARGV[2], now, tonumber(ARGV[3]), tonumber(ARGV[4]), 500)
end
return codes
