-- Checks suspects of a queue with partitions again, and repairs those that are still broken.
--
-- KEYS[1]   partitions:held
-- KEYS[2]   partitions:ready
-- KEYS[3]   partitions:blocked
-- KEYS[4]   partitions:clock
-- KEYS[5]   scheduled
-- KEYS[6]   marker
-- KEYS[7..] the task's hash, for each suspect
-- ARGV[1]   1 to repair, 0 to report
-- ARGV[2..] for each suspect: id ("" = it is a partition), member (its place in held, "" = to check
--           whether held has the place; or the key of the partition)
-- RETURN    for each suspect: the finding, 1 if repaired
-- BOUND     100 suspects
-- include: fields clock mark findings collections

local fix = ARGV[1] == "1" and usable(KEYS[1], "zset") and usable(KEYS[2], "zset") and usable(KEYS[5], "zset") and usable(KEYS[6], "list")
local now = clock()
local stale, due, ready, reply = {}, {}, {}, {}
local a = 2
for k = 7, #KEYS do
  local id, member, finding = ARGV[a], ARGV[a + 1], SOUND
  if id == "" then
    local waits = redis.call("ZLEXCOUNT", KEYS[1], "[" .. member .. "\0", "(" .. member .. "\1") > 0
    if waits and not contains("ZSCORE", KEYS[2], member) and not contains("ZSCORE", KEYS[3], member) then
      finding = UNSERVED
      ready[#ready + 1], ready[#ready + 2] = fields(KEYS[4], "v")[1] or 0, member
    end
  else
    local f = fields(KEYS[k], "state", "held")
    local place = f[1] == "scheduled" and f[2] and f[2] .. id
    if member ~= "" then
      if place ~= member and contains("ZSCORE", KEYS[1], member) then
        finding = STALE_PLACE
        stale[#stale + 1] = member
      end
    elseif place and not contains("ZSCORE", KEYS[1], place) then
      local at = tonumber(redis.call("ZSCORE", KEYS[5], id) or 0)
      if at > now then -- else it is sorted soon
        finding = PLACELESS
        due[#due + 1], due[#due + 2] = now, id
      end
    end
  end
  reply[#reply + 1] = finding
  reply[#reply + 1] = fix and finding ~= SOUND and 1 or 0
  a = a + 2
end
if fix and #stale + #due + #ready > 0 then
  redis.call("ZREM", KEYS[1], "", unpack(stale)) -- the first write, allowed at maxmemory
  if #due > 0 then
    redis.call("ZADD", KEYS[5], "XX", unpack(due))
  end
  if #ready > 0 then
    redis.call("ZADD", KEYS[2], "NX", unpack(ready))
    redis.call("EXPIRE", KEYS[2], "172800")
    mark(KEYS[6])
  end
end
return reply
