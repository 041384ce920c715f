-- placeable(t, pending, scheduled, groups, due, prefix) raises an error if a key that place needs
-- for the task is of another type.
local function placeable(t, pending, scheduled, groups, due, prefix)
  if t.at ~= "0" then
    redis.call("ZCARD", scheduled)
  elseif t.group ~= "" then
    redis.call("SCARD", groups)
    redis.call("ZCARD", due)
    redis.call("ZCARD", prefix .. t.group)
  else
    redis.call("LLEN", pending)
  end
end

-- place(new, pending, marker, scheduled, groups, due, prefix, now, us) creates tasks in the states
-- that they name: {task = key, id, msg, lock ("" = none), ttl, at = time to process in unix seconds
-- ("0" = now), group ("" = none)}. prefix is that of the group keys. It sets the marker for pending
-- tasks and for a scheduled one that is due first: the server that wakes up recomputes how long it
-- can sleep.
local function place(new, pending, marker, scheduled, groups, due, prefix, now, us)
  local ready, delayed, grouped, added = {}, {}, {}, {}
  local now_ns = nanoseconds(now, us)
  for _, t in ipairs(new) do
    local named = t.group ~= "" and "group"
    if t.at ~= "0" then
      create(t.task, t.id, t.msg, "scheduled", t.lock, t.ttl, named, t.group)
      delayed[#delayed + 1] = t.at
      delayed[#delayed + 1] = t.id
      added[t.id] = true
    elseif named then
      create(t.task, t.id, t.msg, "aggregating", t.lock, t.ttl, named, t.group)
      grouped[#grouped + 1] = { prefix .. t.group, t.group, t.id }
    else
      create(t.task, t.id, t.msg, "pending", t.lock, t.ttl, "pending_since", now_ns)
      ready[#ready + 1] = t.id
    end
  end
  if #ready > 0 then
    redis.call("LPUSH", pending, unpack(ready))
  end
  if #delayed > 0 then
    redis.call("ZADD", scheduled, unpack(delayed))
  end
  if #ready > 0 or #delayed > 0 and added[redis.call("ZRANGE", scheduled, "0", "0")[1]] then
    mark(marker)
  end
  gather(groups, due, grouped, now)
end
