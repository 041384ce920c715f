-- trim(archived, prefix, now, size, age, n) deletes the oldest archived tasks beyond the archive's size and age in seconds,
-- at most n, each with its hash and lock. It returns how many it deleted.
local function trim(archived, prefix, now, size, age, n)
  local over = math.min(redis.call("ZCARD", archived) - size, n)
  local ids = redis.call("ZRANGEBYSCORE", archived, "-inf", now - age, "LIMIT", 0, n)
  if over > #ids then
    ids = redis.call("ZRANGE", archived, 0, over - 1)
  end
  return purge(archived, prefix, ids, "archived")
end
