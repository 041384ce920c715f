-- Acquires, renews, releases or deletes the leadership of a scheduler group.
--
-- KEYS[1]  scheduler group
-- ARGV[1]  "acquire" or renew; "release", so that another instance can acquire it before the lease
--          ends; "delete" the record, unless the group has a leader
-- ARGV[2]  the caller's name, "" to delete
-- ARGV[3]  length of a lease in milliseconds, to acquire
-- ARGV[4]  TTL of the group's record in seconds, to acquire
-- RETURN   {1 if the caller is the leader, else 0, unix milliseconds now, end of the leader's lease
--          or 0 if there is no leader, start of its term, milliseconds without a leader before the
--          term or -1 if unknown}
-- BOUND    one group
--
-- A term starts with its first lease and lasts while leases follow without a gap. A repeated call
-- returns the same term.
--
-- EXPIRE and HDEL come first: they are allowed at maxmemory, and after them all writes are.
-- include: clock

local f = redis.call("HMGET", KEYS[1], "leader", "until", "began", "vacant")
local leader, expiry, began, vacant = f[1] or "", tonumber(f[2]), tonumber(f[3] or 0), tonumber(f[4] or -1)
local now, us = clock()
local now_ms = now * 1000 + math.floor(us / 1000)
local held = leader ~= "" and expiry and expiry >= now_ms
if ARGV[1] == "release" and leader == ARGV[2] then
  redis.call("HDEL", KEYS[1], "leader")
  redis.call("HSET", KEYS[1], "until", string.format("%.0f", now_ms))
  held = false
elseif ARGV[1] == "delete" and not held then
  redis.call("DEL", KEYS[1])
elseif ARGV[1] == "acquire" and (not held or leader == ARGV[2]) then
  if not held then
    began = now_ms
    vacant = expiry and math.max(now_ms - expiry, 0) or -1
  end
  expiry = now_ms + tonumber(ARGV[3])
  redis.call("EXPIRE", KEYS[1], ARGV[4])
  redis.call("HSET", KEYS[1], "leader", ARGV[2], "until", string.format("%.0f", expiry),
    "began", string.format("%.0f", began), "vacant", string.format("%.0f", vacant))
  redis.call("EXPIRE", KEYS[1], ARGV[4])
  return { 1, now_ms, expiry, began, vacant }
end
return { 0, now_ms, held and expiry or 0, began, vacant }
