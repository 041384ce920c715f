-- addMany(key, pairs) adds 500 members or fewer, given with their scores, to a sorted set. It
-- returns what ZADD returns, or its error.
--
-- Redis keeps a small sorted set as an array, in which each addition moves others. With 16 members
-- or more, the first one is longer than an array permits, so the set becomes a skip list.
local function addMany(key, pairs)
  if #pairs < 32 then
    return redis.pcall("ZADD", key, unpack(pairs))
  end
  local long = string.rep("-", 65)
  local added = redis.pcall("ZADD", key, "0", long, unpack(pairs))
  if type(added) == "number" then
    redis.call("ZREM", key, long)
  end
  return added
end
