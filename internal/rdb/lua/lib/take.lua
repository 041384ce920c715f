-- take(active, lease, pending, paused, marker, retry, prefix, n, length, token, deadline, cap,
-- mark_rest, waits, lengths) implements fetch.lua, with its arguments. If a key is of another type
-- it returns the error and changes nothing, so done_fetch.lua can continue.
--
-- It stops when the messages reach a megabyte, because copying them blocks Redis. The reply reports
-- that more tasks are available, and the caller fetches them at once. A message that the caller
-- reads itself counts an eighth: Redis copies it once instead of three times, in a command of its
-- own.
--
-- The first write is LTRIM, which is allowed at maxmemory.
local function take(active, lease, pending, paused, marker, retry, prefix, n, length, token, deadline, cap, mark_rest, waits,
  lengths)
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
      return { CAPPED, now_ms, 0 } -- retries run before newer tasks
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

  local ids = redis.pcall("LRANGE", pending, string.format("%d", -n - 1), "-1") -- one more than the fetch takes
  if ids.err then
    return ids
  end
  local left = #ids > n
  if #ids < n then
    code = OK -- the cap did not limit the fetch
  end
  if #ids == 0 then
    return { code, now_ms, 0 }
  end
  local first = left and 2 or 1
  local expiry = string.format("%d", now + length + (us > 0 and 1 or 0)) -- a number would be formatted once per task
  local reply, r, bytes = { code, now_ms, 0 }, 3, 0
  local taken, tasks, leases, t, seen = {}, {}, {}, 0, {}
  for i = #ids, first, -1 do
    local id = ids[i]
    local task = prefix .. id
    local size = lengths == "1" and redis.pcall("HSTRLEN", task, "msg") -- an error is that of fields
    local large = type(size) == "number" and size > 65536
    local read = large and "state" or "msg" -- in place of the message
    local f = waits == "1" and fields(task, "state", read, "pending_since") or fields(task, "state", read)
    local msg = false
    if f[1] == "pending" and not seen[id] then
      msg, seen[id] = large and size or f[2] or "", true
      bytes = bytes + (type(msg) == "number" and msg / 8 or #msg)
      t = t + 1
      taken[t], tasks[t], leases[2 * t - 1], leases[2 * t] = id, task, expiry, id
    end
    reply[r + 1], reply[r + 2] = id, msg
    r = r + 2
    if waits == "1" then
      r = r + 1
      reply[r] = waited(f[3], now, us)
    end
    if bytes >= 1048576 and i > first then
      first, left, code = i, true, OK -- the cap did not limit the fetch
      break
    end
  end
  reply[1], reply[3] = code, left and code == OK and 1 or 0

  redis.call("LTRIM", pending, "0", string.format("%d", first - 2 - #ids))
  if t > 0 then
    local added = addMany(redis.pcall, lease, leases)
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
    local behind = added >= LONG and added - t
    for i, task in ipairs(tasks) do
      if behind then
        redis.call("HSET", task, "state", "active", "token", token, "position", string.format("%d", behind + i))
      else
        redis.call("HSET", task, "state", "active", "token", token)
      end
      redis.call("HDEL", task, "pending_since")
    end
  end
  if reply[3] == 1 and mark_rest == "1" and (cap == 0 or leased + t < cap) then
    mark(marker)
  end
  return reply
end
