-- gather(groups, due, entries, now) adds tasks to their groups; entries are {group key, group name,
-- id}. It marks each group as due for a check by an aggregator, because only aggregators know the
-- grace period and size limit. The TTL of the index is for queues deleted by processes that do not
-- know the key.
local function gather(groups, due, entries, now)
  if #entries == 0 then
    return
  end
  local names, looks, seen = {}, {}, {}
  for _, e in ipairs(entries) do
    redis.call("ZADD", e[1], now, e[3])
    if not seen[e[2]] then
      seen[e[2]] = true
      names[#names + 1] = e[2]
      looks[#looks + 1] = now
      looks[#looks + 1] = e[2]
    end
  end
  redis.call("SADD", groups, unpack(names))
  redis.call("ZADD", due, unpack(looks))
  redis.call("EXPIRE", due, 3600)
end
