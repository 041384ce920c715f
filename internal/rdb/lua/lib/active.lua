-- strike(active, lease, ids) takes the IDs out of the active list and the lease set.
--
-- Tasks mostly finish in the order they were taken, or in batches of whole fetches, so the IDs are at one end of the list: a
-- window at either end is read and popped, and what must stay is pushed back. That is a handful of commands for a batch, where
-- one LREM per ID would scan. Only IDs outside of the windows cost a scan.
--
-- Reading the list and ZREM come first: a key of another type ends the script before anything is written. ZREM is also a
-- write that works when Redis is full; after it all others do.
local function strike(active, lease, ids)
  local n = #ids
  if n == 0 then
    return
  end
  if n == 1 then
    local id = ids[1]
    local last = redis.call("LINDEX", active, -1)
    redis.call("ZREM", lease, id)
    if last == id then
      redis.call("RPOP", active)
    elseif redis.call("LPOS", active, id, "MAXLEN", 64) then
      redis.call("LREM", active, 1, id)
    else
      redis.call("LREM", active, -1, id)
    end
    return
  end

  local want, left = {}, n
  for _, id in ipairs(ids) do
    want[id] = true
  end
  -- pull takes the wanted IDs out of a window that was read, and returns what must stay, in the window's order.
  local function pull(window)
    local stay = {}
    for _, id in ipairs(window) do
      if want[id] then
        want[id] = nil
        left = left - 1
      else
        stay[#stay + 1] = id
      end
    end
    return stay
  end

  local window = redis.call("LRANGE", active, -n, -1)
  redis.call("ZREM", lease, unpack(ids))
  local stay = pull(window)
  if #stay < #window then
    redis.call("RPOP", active, #window)
    if #stay > 0 then
      redis.call("RPUSH", active, unpack(stay))
    end
  end
  if left == 0 then
    return
  end

  window = redis.call("LRANGE", active, 0, 2 * n - 1)
  stay = pull(window)
  if #stay < #window then
    redis.call("LPOP", active, #window)
    if #stay > 0 then
      for i = 1, math.floor(#stay / 2) do
        stay[i], stay[#stay + 1 - i] = stay[#stay + 1 - i], stay[i]
      end
      redis.call("LPUSH", active, unpack(stay))
    end
  end
  if left == 0 then
    return
  end

  window = redis.call("LRANGE", active, -2 * n, -1)
  stay = pull(window)
  if #stay < #window then
    redis.call("RPOP", active, #window)
    if #stay > 0 then
      redis.call("RPUSH", active, unpack(stay))
    end
  end
  for id in pairs(want) do
    redis.call("LREM", active, -1, id)
  end
end
