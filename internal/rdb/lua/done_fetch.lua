-- Combines done.lua and fetch.lua in one call, because most round trips need both.
--
-- KEYS[1]     active
-- KEYS[2]     lease
-- KEYS[3]     processed, total
-- KEYS[4]     processed, today
-- KEYS[5]     pending
-- KEYS[6]     paused
-- KEYS[7]     marker
-- KEYS[8]     retry
-- KEYS[9..]   the task's hash, for each task to settle
-- ARGV[1]     prefix of the task keys; the IDs to fetch are not known in advance
-- ARGV[2]     n
-- ARGV[3]     length of the lease in seconds
-- ARGV[4]     token
-- ARGV[5]     unix milliseconds after which the call fetches nothing; 0 = never
-- ARGV[6]     maximum number of active tasks of the queue on all servers; 0 = unlimited; -1 = one,
--             and none while another waits for its retry
-- ARGV[7]     1 to set the marker if tasks remain pending and more may be active, else 0
-- ARGV[8]     1 to return the waiting times of the tasks, else 0
-- ARGV[9]     1 to return the length of a message of more than 64 kB in its place, else 0
-- ARGV[10]    TTL of the daily counter in seconds
-- ARGV[11]    length of the prefix of the task keys
-- ARGV[12]    tokens of the tasks to settle, as in done.lua
-- ARGV[13..]  for each lock: number of its task, the lock; in the variant done_fetch_members as in
--             done_members
-- RETURN      {the reply of done.lua, the reply of fetch.lua or its error}: a failed fetch does not
--             revert the settlements
-- BOUND       500 tasks to settle; n, at most 500, to fetch, and of them a megabyte of messages and
--             one message; a length counts an eighth
--
-- At concurrency 1, each call settles one task and fetches one, usually in a queue without a limit.
-- It needs none of the included functions, whose creation would take a quarter of its time.

if #KEYS == 9 and #ARGV == 12 and ARGV[6] == "0" and ARGV[8] == "0" and ARGV[9] == "0" then
  local n, now = tonumber(ARGV[2]), redis.call("TIME")
  local now_ms, deadline = now[1] * 1000 + math.floor(now[2] / 1000), tonumber(ARGV[5])
  local ids = redis.pcall("LRANGE", KEYS[5], string.format("%d", -n - 1), "-1")
  local id, length = ids[#ids], redis.pcall("LLEN", KEYS[1])
  local task = id and (#ids == 1 or n == 1 and ARGV[7] == "0") and ARGV[1] .. id
  local old = task and redis.pcall("HMGET", KEYS[9], "state", "token") or {}
  local new = task and redis.pcall("HMGET", task, "state", "msg") or {}
  if old[1] == "active" and (old[2] or "") .. "*1 " == ARGV[12] and new[1] == "pending"
    and type(length) == "number" and length < 1000 and (deadline == 0 or now_ms <= deadline)
    and redis.call("EXISTS", KEYS[6]) == 0 then
    local done = string.sub(KEYS[9], ARGV[11] + 1)
    redis.call("ZREM", KEYS[2], done) -- see removeActive
    redis.call("LREM", KEYS[1], "-1", done)
    redis.call("DEL", KEYS[9])
    if redis.pcall("INCRBY", KEYS[4], "1") == 1 then -- see count
      redis.call("EXPIRE", KEYS[4], ARGV[10])
    end
    redis.pcall("INCRBY", KEYS[3], "1")
    redis.call("LTRIM", KEYS[5], "0", "-2") -- see take
    redis.call("ZADD", KEYS[2], string.format("%d", now[1] + ARGV[3] + (now[2] == "0" and 0 or 1)), id)
    redis.call("LPUSH", KEYS[1], id)
    redis.call("HSET", task, "state", "active", "token", ARGV[4])
    redis.call("HDEL", task, "pending_since")
    return { 0, { 0, now_ms, #ids > n and 1 or 0, id, new[2] or "" } } -- OK
  end
end
-- include: codes fields clock mark counters locks long active held finish waited add take
-- members: -- include: member

local tasks, locks = { unpack(KEYS, 9) }, { unpack(ARGV, 13) }
-- members: local parts = locks
-- members: locks = {}
local codes, _, ids = finish(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[10], tasks, ARGV[11], ARGV[12], locks)
-- members: countDone(parts, codes, tasks, ARGV[11], ids)
return {
  codes,
  take(KEYS[1], KEYS[2], KEYS[5], KEYS[6], KEYS[7], KEYS[8], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7],
    ARGV[8], ARGV[9]),
}
