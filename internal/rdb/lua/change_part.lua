-- Changes when a part is checked, or ends what a server does for it.
--
-- KEYS[1]  the part
-- KEYS[2]  its open members
-- KEYS[3]  its failed members
-- KEYS[4]  flows:due
-- ARGV[1]  check = check it later, unless it has changed; close = it gets no more members; release
--          = the flow has ended; reopen = the node runs again
-- ARGV[2]  name of the part
-- ARGV[3]  for check: the version of the part as the caller has read it
-- ARGV[4]  for check: milliseconds until the next check
-- ARGV[5]  TTL of the part in seconds
-- RETURN   OK; CHANGED if the part has changed; for close: ALREADY if it has members
-- BOUND    one part
-- include: codes clock

local version = redis.call("HGET", KEYS[1], "version")
if ARGV[1] == "check" then
  if (version or "0") ~= ARGV[3] then
    return CHANGED
  end
  local now, us = clock()
  if version then
    local check = string.format("%d", now * 1000 + math.floor(us / 1000) + ARGV[4])
    redis.call("HSET", KEYS[1], "check", check)
    redis.call("ZADD", KEYS[4], check, ARGV[2])
    redis.call("EXPIRE", KEYS[4], ARGV[5])
  end
  return OK
elseif ARGV[1] == "reopen" then
  redis.call("HDEL", KEYS[1], "closed")
  return OK
end
if ARGV[1] == "close" then
  redis.call("HSET", KEYS[1], "closed", 1)
else
  redis.call("ZREM", KEYS[4], ARGV[2])
end
redis.call("EXPIRE", KEYS[1], ARGV[5])
redis.call("EXPIRE", KEYS[2], ARGV[5])
redis.call("EXPIRE", KEYS[3], ARGV[5])
return version and ARGV[1] == "close" and ALREADY or OK
