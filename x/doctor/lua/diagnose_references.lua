-- Checks suspect IDs in a collection, or the suspect holders of locks, and removes those that do
-- not belong there. Of an ID that a list contains more than once it keeps only the entry nearest to
-- the end of the list.
--
-- KEYS[1]    lease
-- KEYS[2..]  for each ID: the collection or lock, the task's hash
-- ARGV[1]    1 to remove, 0 to report
-- ARGV[2]    state of the tasks in the collection, "" = the keys are locks
-- ARGV[3]    name of the group of its tasks, "" = none
-- ARGV[4]    index of the first entry of the part of a list to search
-- ARGV[5]    length of the part, at most 2,000, 0 = the whole list
-- ARGV[6..]  for each ID: id
-- RETURN     for each ID: the finding, and how many times it was removed. An ID that has left the
--            collection, or the part of the list, is sound.
-- BOUND      200 IDs, and one scan of a list from its nearer end to the part; one ID to search the
--            whole list
--
-- Redis cannot remove list entries by index. The script overwrites them with a text that is not an
-- ID, and removes these with one LREM, which stops at the last of them.
--
-- The first write to a list is a ZREM of nothing: unlike LSET it is allowed at maxmemory, and after
-- it all writes are.
-- include: fields locks findings collections

local NOTHING = "asynq: removed"
local state, first, n = ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
local fix = ARGV[1] == "1"

-- references(task, lock) returns whether the holder references the lock. Other libraries do not
-- store it in the hash of a task with a group, only in its message. A completed task has no lock,
-- even if its message names one.
local function references(task, lock)
  local f = fields(task, "unique_key", "state")
  if f[1] or not f[2] or f[2] == "completed" then
    return f[1] == lock
  end
  local msg = fields(task, "msg")[1]
  return msg and string.find(msg, lock, 1, true)
end

-- places(key, id) returns where the key contains the ID: indexes of a list; of another key, one
-- value or none.
local kind, at
local function places(key, id)
  if state == "" then
    return { owns(key, id) or nil }
  end
  kind = kind or redis.call("TYPE", key).ok
  if kind == "zset" then
    return { redis.call("ZSCORE", key, id) or nil }
  elseif kind ~= "list" then
    return {}
  elseif n == 0 then
    return redis.call("LPOS", key, id, "COUNT", 0)
  end
  if not at then
    at = {}
    for i, entry in ipairs(redis.call("LRANGE", key, first, first + n - 1)) do
      at[entry] = at[entry] or {}
      table.insert(at[entry], first + i - 1)
    end
  end
  return at[id] or {}
end

-- check(key, task, times) returns the finding of a key that contains the ID of the task.
local function check(key, task, times)
  if state == "" then
    return references(task, key) and SOUND or ORPHAN_LOCK
  end
  local f = fields(task, "state", "group")
  if f[1] == state and (ARGV[3] == "" or f[2] == ARGV[3]) then
    return times > 1 and TWICE or SOUND
  elseif f[1] and STATES[f[1]] then
    return MISPLACED
  end
  return redis.call("TYPE", task).ok == "hash" and SOUND or DANGLING
end

local reply, out, collection = {}, {}, nil
local a = 6
for k = 2, #KEYS, 2 do
  local found, finding, removed = places(KEYS[k], ARGV[a]), SOUND, 0
  if #found > 0 then
    finding = check(KEYS[k], KEYS[k + 1], #found)
  end
  if finding ~= SOUND and fix and (kind ~= "list" or usable(KEYS[1], "zset")) then
    removed = finding == TWICE and #found - 1 or #found
    for i = 1, removed do
      out[#out + 1] = state == "" and KEYS[k] or kind == "zset" and ARGV[a] or found[i]
    end
    collection = KEYS[k]
  end
  reply[#reply + 1] = finding
  reply[#reply + 1] = removed
  a = a + 1
end
if #out == 0 then
  return reply
end
if state == "" then
  redis.call("DEL", unpack(out))
elseif kind == "zset" then
  redis.call("ZREM", collection, unpack(out))
else
  redis.call("ZREM", KEYS[1], NOTHING)
  for _, index in ipairs(out) do
    redis.call("LSET", collection, index, NOTHING)
  end
  local near = n == 0 or first < redis.call("LLEN", collection) / 2
  redis.call("LREM", collection, near and #out or -#out, NOTHING)
end
return reply
