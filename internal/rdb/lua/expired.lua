-- Lists tasks whose lease has expired.
--
-- KEYS[1]  lease
-- ARGV[1]  prefix of the task keys
-- ARGV[2]  number of entries to skip
-- ARGV[3]  maximum number of entries to scan
-- ARGV[4]  seconds of grace for leases of tasks without a token, which other libraries set by their
--          host's clock
-- ARGV[5]  bytes of messages after which the scan stops
-- RETURN   {entries scanned, milliseconds until the next lease expires, 0 if the bytes were used up
--          before the last entry, -1 if there is none, then for each task: id, token, msg or false
--          if there is no task}
-- BOUND    ARGV[3], at most 100; ARGV[5] and one message
-- include: fields clock

local now = clock()
local page = redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", "(" .. now, "WITHSCORES", "LIMIT", ARGV[2], ARGV[3])
local reply, bytes = { #page / 2, -1 }, tonumber(ARGV[5])
for i = 1, #page, 2 do
  local id = page[i]
  local f = fields(ARGV[1] .. id, "state", "token", "msg")
  local ours = f[2] or f[1] ~= "active"
  if ours or tonumber(page[i + 1]) + tonumber(ARGV[4]) < now then
    reply[#reply + 1] = id
    reply[#reply + 1] = f[2] or ""
    reply[#reply + 1] = f[1] == "active" and (f[3] or "")
  end
  bytes = bytes - #(f[3] or "")
  if bytes <= 0 and i + 1 < #page then
    reply[1], reply[2] = (i + 1) / 2, 0
    return reply
  end
end
local nxt = redis.call("ZRANGEBYSCORE", KEYS[1], now, "+inf", "WITHSCORES", "LIMIT", 0, 1)
if #nxt > 0 then
  reply[2] = math.max(1, (tonumber(nxt[2]) - now) * 1000)
end
return reply
