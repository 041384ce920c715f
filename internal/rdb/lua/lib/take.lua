-- waited(since, now, us) is for how many microseconds a task has been pending since then, -1 if that is no time. A double is exact to
-- a quarter of a microsecond here.
local function waited(since, now, us)
  local w = now * 1000000 + us - (tonumber(since or "") or 0 / 0) / 1000
  if not (w > -1e16 and w < 1e16) then
    return -1
  end
  return math.max(math.floor(w), 0) -- it may have begun by another clock, which is fast
end

-- take(active, lease, pending, paused, marker, retry, prefix, n, length, token, deadline, cap, tell, waits) is fetch.lua, with its arguments.
-- Keys of another type it finds before it changes anything for good, and returns the error, so that turn.lua can go on.
--
-- It takes no more once the messages are a megabyte: nobody else is served while Redis copies them. What is left then is as good as
-- taken by the next call, which is asked for at once.
--
-- The first write is LTRIM, which works when Redis is full.
local function take(active, lease, pending, paused, marker, retry, prefix, n, length, token, deadline, cap, tell, waits)
  n, deadline, cap = tonumber(n), tonumber(deadline), tonumber(cap)
  local now, us = clock()
  local now_ms = now * 1000 + math.floor(us / 1000)
  if deadline > 0 and now_ms > deadline then
    return { STALE, now_ms, 0 }
  elseif redis.call("EXISTS", paused) == 1 then
    return { PAUSED, now_ms, 0 }
  end
  if cap < 0 then
    cap = 1
    local held = redis.pcall("ZCARD", retry)
    if type(held) == "table" then
      return held
    elseif held > 0 then
      return { CAPPED, now_ms, 0 } -- what failed is tried again before anything behind it starts
    end
  end
  local code, leased = OK, 0
  if cap > 0 then
    leased = redis.pcall("ZCARD", lease)
    if type(leased) == "table" then
      return leased
    elseif leased + n > cap then
      code, n = CAPPED, cap - leased
      if n <= 0 then
        return { CAPPED, now_ms, 0 }
      end
    end
  end

  local ids = redis.pcall("LRANGE", pending, string.format("%d", -n - 1), "-1") -- one more than to be taken
  if ids.err then
    return ids
  end
  local left = #ids > n
  if #ids < n then
    code = OK -- it was not the cap that left the fetch short
  end
  if #ids == 0 then
    return { code, now_ms, 0 }
  end
  local first = left and 2 or 1
  local expiry = string.format("%d", now + length + (us > 0 and 1 or 0)) -- as a number it would be printed once for each task
  local reply, r, bytes = { code, now_ms, 0 }, 3, 0
  local taken, tasks, leases, t, seen = {}, {}, {}, 0, {}
  for i = #ids, first, -1 do
    local id = ids[i]
    local task = prefix .. id
    local f = waits == "1" and fields(task, "state", "msg", "pending_since") or fields(task, "state", "msg")
    local msg = false
    if f[1] == "pending" and not seen[id] then
      msg, seen[id] = f[2] or "", true
      t = t + 1
      taken[t], tasks[t], leases[2 * t - 1], leases[2 * t] = id, task, expiry, id
    end
    reply[r + 1], reply[r + 2] = id, msg
    r = r + 2
    if waits == "1" then
      r = r + 1
      reply[r] = waited(f[3], now, us)
    end
    bytes = bytes + (msg and #msg or 0)
    if bytes >= 1048576 and i > first then
      first, left, code = i, true, OK -- it was not the cap that left the fetch short
      break
    end
  end
  reply[1], reply[3] = code, left and code == OK and 1 or 0

  redis.call("LTRIM", pending, "0", string.format("%d", first - 2 - #ids))
  if t > 0 then
    local added = redis.pcall("ZADD", lease, unpack(leases))
    if type(added) == "number" then
      added = redis.pcall("LPUSH", active, unpack(taken))
      if type(added) == "table" then
        redis.call("ZREM", lease, unpack(taken))
      end
    end
    if type(added) == "table" then
      redis.call("RPUSH", pending, unpack(ids, first))
      return added
    end
    for _, task in ipairs(tasks) do
      redis.call("HSET", task, "state", "active", "token", token)
      redis.call("HDEL", task, "pending_since")
    end
  end
  if reply[3] == 1 and tell == "1" and (cap == 0 or leased + t < cap) then
    mark(marker)
  end
  return reply
end
