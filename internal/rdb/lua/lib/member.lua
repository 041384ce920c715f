-- noteEnd(ends, prefix, flow, client, task, id, outcome, result) notes the end of a task that is a
-- member of a part or awaited by a client, before its hash is changed. countEnds writes it. Other
-- outcomes than an end are ignored. result may be nil: then the task's hash has it.
local function noteEnd(ends, prefix, flow, client, task, id, outcome, result)
  local how = (outcome == "done" or outcome == "complete") and "succeeded" or outcome == "archive" and "failed"
    or (outcome == "delete" or outcome == "drop") and "deleted"
  if not how then
    return
  end
  -- read() returns the result, false if it is too large to be copied.
  local function read()
    if (result and #result or redis.call("HSTRLEN", task, "result")) > 65536 then
      return false
    end
    return result or redis.call("HGET", task, "result") or ""
  end
  if flow then
    local name = string.sub(flow, 2)
    local part = ends[name] or { succeeded = {}, failed = {}, deleted = {} }
    ends[name] = part
    table.insert(part[how], id)
    if how == "succeeded" and string.sub(flow, 1, 1) == "1" then
      part.result = read() or nil
    end
  end
  local names = client and (client == "-" and "" or client .. " ") .. (redis.call("HGET", task, "awaited_by") or "") or ""
  if names ~= "" then
    local value = how == "succeeded" and read()
    local text = #id .. " " .. (value == false and how == "succeeded" and "unread" or how) .. " " .. id .. (value or "")
    ends.replies = ends.replies or {}
    for name in string.gmatch(names, "%S+") do
      table.insert(ends.replies, { prefix .. "replies:" .. name, text })
    end
  end
end

-- countEnds(ends, prefix, now, us) counts members that have ended, each once, and makes their parts
-- due for a check. A member that failed earlier is no longer failed. It also writes the replies to
-- clients.
local function countEnds(ends, prefix, now, us)
  local due = string.format("%d", now * 1000 + math.floor(us / 1000))
  for _, reply in ipairs(ends.replies or {}) do
    redis.call("RPUSH", reply[1], reply[2])
    redis.call("EXPIRE", reply[1], "60")
  end
  ends.replies = nil
  for name, part in pairs(ends) do
    local key, open, failed = prefix .. "flows:part:" .. name, prefix .. "flows:open:" .. name, prefix .. "flows:failed:" .. name
    local changed = false
    for _, how in ipairs({ "succeeded", "deleted" }) do
      local ids = part[how]
      if #ids > 0 then
        local n = redis.call("SREM", open, unpack(ids))
        if n < #ids then
          n = n + redis.call("SREM", failed, unpack(ids))
        end
        if n > 0 then
          redis.call("HINCRBY", key, how, n)
          changed = true
        end
      end
    end
    for _, id in ipairs(part.failed) do
      if redis.call("SREM", open, id) == 1 then
        redis.call("SADD", failed, id)
        redis.call("EXPIRE", failed, "2592000")
        changed = true
      end
    end
    if changed then
      if part.result and part.result ~= "" then
        redis.call("HSET", key, "result", part.result)
      end
      redis.call("HINCRBY", key, "version", 1)
      redis.call("ZADD", prefix .. "flows:due", due, name)
      redis.call("EXPIRE", prefix .. "flows:due", "2592000")
    end
  end
end

-- countDone(parts, codes, tasks, length, done) counts members that have succeeded and were deleted,
-- given the arguments of done_members: runs of tasks with the same part, as pairs of their number
-- and the name; the first and last result of finish; the keys of the tasks, and the length of their
-- prefix.
local function countDone(parts, codes, tasks, length, done)
  if #done == 0 then
    return
  end
  local ends, t = {}, 0
  if #parts == 2 then
    ends[parts[2]] = { succeeded = done, failed = {}, deleted = {} }
  else
    for p = 1, #parts, 2 do
      local name = parts[p + 1]
      local part = ends[name] or { succeeded = {}, failed = {}, deleted = {} }
      ends[name] = part
      for _ = 1, tonumber(parts[p]) do
        t = t + 1
        if codes == OK or codes[t] == OK then
          table.insert(part.succeeded, string.sub(tasks[t], length + 1))
        end
      end
    end
  end
  local now, us = clock()
  countEnds(ends, string.sub(tasks[1], 1, length - 2), now, us)
end
