-- strike(active, lease, ids) takes the IDs out of the active list and the lease set.
--
-- Tasks mostly finish in the order they were taken, or in batches of whole fetches, so the IDs are at one end of the list: a
-- window at either end is popped, and what must stay is pushed back. That is a handful of commands for a batch, where one LREM
-- per ID would scan. Only IDs outside of the windows cost more: a few of them a scan each, from the head if they are near it, or else
-- from the tail. Many are found together in one reading from the tail, overwritten by a text that is no ID, and all of these taken out by
-- one LREM: with 100,000 tasks active, 500 scans would keep Redis busy for a second and more.
--
-- The first write is RPOP, which works when Redis is full; after it all others do. A key of another type ends the script with
-- everything as it was.
local function strike(active, lease, ids)
  local n = #ids
  if n == 0 then
    return
  end
  local want, left = {}, n
  for _, id in ipairs(ids) do
    want[id] = true
  end
  -- keep(push, popped, all) pushes back what must stay of a window that was popped from the same end, or all of it.
  local function keep(push, popped, all)
    local stay = {}
    for i = #popped, 1, -1 do
      local id = popped[i]
      if want[id] and not all then
        want[id] = nil
        left = left - 1
      else
        stay[#stay + 1] = id
      end
    end
    if #stay > 0 then
      redis.call(push, active, unpack(stay))
    end
  end

  local popped = redis.call("RPOP", active, string.format("%d", n)) or {}
  if type(redis.pcall("ZREM", lease, unpack(ids))) == "table" then
    keep("RPUSH", popped, true)
    redis.call("ZCARD", lease) -- raises the error
  end
  keep("RPUSH", popped)
  local wide = string.format("%d", 2 * n)
  if left > 0 then
    keep("LPUSH", redis.call("LPOP", active, wide) or {})
  end
  if left > 0 and n > 1 then
    keep("RPUSH", redis.call("RPOP", active, wide) or {})
  end
  if left > 8 then
    local page, holes = 1000, 0
    for last = redis.call("LLEN", active) - 1, 0, -page do
      local first = math.max(last - page + 1, 0)
      local ids = redis.call("LRANGE", active, string.format("%d", first), string.format("%d", last))
      for i = #ids, 1, -1 do
        if want[ids[i]] then
          want[ids[i]] = nil
          redis.call("LSET", active, string.format("%d", first + i - 1), "asynq: struck out")
          holes = holes + 1
        end
      end
      if holes == left then
        break
      end
    end
    if holes > 0 then
      redis.call("LREM", active, string.format("%d", -holes), "asynq: struck out")
    end
    left = 0
  end
  for id in pairs(left > 0 and want or {}) do
    local near = redis.call("LPOS", active, id, "MAXLEN", "256")
    redis.call("LREM", active, near and "1" or "-1", id)
  end
end
