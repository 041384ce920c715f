-- Moves up to n tasks of a queue with partitions to active, as fetch.lua does for other queues. The
-- partitions share the queue fairly, and each has its limits. Pending is the inbox: the script
-- reads the partition key of each task in it, and makes tasks that may not start yet scheduled, for
-- a day, and holds them in a lane for their key. After that day they are forwarded and return to
-- the inbox, so no task depends on the lanes.
--
-- KEYS[1]    active
-- KEYS[2]    lease
-- KEYS[3]    pending
-- KEYS[4]    paused
-- KEYS[5]    marker
-- KEYS[6]    scheduled
-- KEYS[7]    partitions:held
-- KEYS[8]    partitions:ready
-- KEYS[9]    partitions:blocked
-- KEYS[10]   partitions:running
-- KEYS[11]   partitions:rates
-- KEYS[12]   partitions:clock
-- KEYS[13]   partitions:settings
-- ARGV[1]    prefix of the task keys; the IDs are not known in advance
-- ARGV[2]    n; 0 = only sort the inbox
-- ARGV[3]    length of the lease in seconds
-- ARGV[4]    token
-- ARGV[5]    unix milliseconds after which the call does nothing; 0 = never
-- ARGV[6]    maximum number of active tasks of the queue on all servers; 0 = unlimited
-- ARGV[7]    1 to set the marker if tasks remain that may start, else 0
-- ARGV[8]    1 to return the waiting times of the tasks, else 0
-- ARGV[9]    settings of partitions without their own, in the same form; see lib/settings.lua
-- ARGV[10]   1 if the tasks of a partition run in order, else 0
-- ARGV[11]   1 if the type of a task is its partition key, else 0
-- ARGV[12]   1 to check some of the running tasks, else 0
-- ARGV[13]   1 if the first tasks of the inbox may start before the others are sorted, see
--            lib/first.lua, else 0
-- ARGV[14..] for each task: key, id; tasks that have ended on the calling server
-- RETURN     {code, unix milliseconds now, 1 if tasks remain that may start, 2 if a part of the
--            inbox must be sorted first, else 0, unix milliseconds when to check the next limit or
--            0, number of ended tasks that keep their places because they have leases, then for
--            each ID: id, msg or false, and if ARGV[8] is 1 microseconds in pending or -1} code:
--            OK, STALE, PAUSED or CAPPED. false: no pending task has the ID, and the ID is dropped.
-- BOUND      500 tasks of the inbox, and a megabyte of their messages and one message; n, at most
--            500, and as many bytes; 1,000 partitions; 500 tasks that have ended
--
-- held has the lanes, as members <key> NUL <sequence number> <ID>, and running the active tasks, as
-- <key> NUL <ID>, both with equal scores. ready is scored by virtual time; blocked, the partitions
-- that a limit blocks, by when to check it in unix milliseconds; rates by theoretical arrival time
-- (GCRA) in unix microseconds. clock has the virtual time (v), the last sequence number (seq), the
-- virtual times of blocked partitions (k<key>), and where the check of running tasks continues.
-- include: codes fields clock mark long waited varint partition add first heap settings

local now, us = clock()
local now_ms, now_us = now * 1000 + math.floor(us / 1000), now * 1000000 + us
local n, deadline, cap = tonumber(ARGV[2]), tonumber(ARGV[5]), tonumber(ARGV[6])
if deadline > 0 and now_ms > deadline then
  return { STALE, now_ms, 0, 0, (#ARGV - 13) / 2 }
elseif redis.call("EXISTS", KEYS[4]) == 1 then
  return { PAUSED, now_ms, 0, 0, (#ARGV - 13) / 2 }
end
-- number(score) parses a score; a missing one is infinite. The Lua of miniredis does not parse inf.
local function number(score)
  return tonumber(score or "") or math.huge
end

local leased, code = redis.call("ZCARD", KEYS[2]), OK
if cap > 0 and leased + n > cap then
  code, n = CAPPED, math.max(cap - leased, 0)
end
local ordered, by_type = ARGV[10] == "1", ARGV[11] == "1"
local held, blocked = redis.call("ZCARD", KEYS[7]), redis.call("ZCARD", KEYS[9])
local own = redis.call("HLEN", KEYS[13]) > 0
local default = settings(ARGV[9])
redis.call("LLEN", KEYS[1])
redis.call("ZCARD", KEYS[6])
redis.call("ZCARD", KEYS[10])
redis.call("ZCARD", KEYS[11])
redis.call("LLEN", KEYS[3])
local times = redis.call("HMGET", KEYS[12], "v", "seq")
local virtual, seq = tonumber(times[1] or "") or 0, math.max((tonumber(times[2] or "") or 0) + 1, now_us)
local readies = redis.call("ZCARD", KEYS[8])

-- What the call changes, collected before the first write.
local unrun, unheld, due, stale = {}, {}, {}, {}

-- runningOf(key) counts the running tasks of a partition, and collects those that no longer run. It
-- checks 1,000 of them and counts the others as running. In order, tasks that will run again count.
local function runningOf(key)
  local members = redis.call("ZRANGEBYLEX", KEYS[10], "[" .. key .. "\0", "(" .. key .. "\1", "LIMIT", "0", "1000")
  local gone, ids = 0, {}
  for i, member in ipairs(members) do
    ids[i] = string.sub(member, #key + 2)
  end
  local leases = #ids > 0 and redis.call("ZMSCORE", KEYS[2], unpack(ids)) or {}
  for i, member in ipairs(members) do
    local runs = leases[i]
    if not runs and ordered then
      local f = fields(ARGV[1] .. ids[i], "state", "held")
      runs = f[1] == "retry" or f[1] == "pending" or f[1] == "scheduled" and not f[2]
    end
    if not runs then
      unrun[#unrun + 1], gone = member, gone + 1
    end
  end
  return redis.call("ZLEXCOUNT", KEYS[10], "[" .. key .. "\0", "(" .. key .. "\1") - gone
end

-- The partitions that the call concerns. Fields of a lane: key; vt, its virtual time; was, the set
-- that has it; front and mem, tasks of the inbox that come before and after the held ones; back,
-- tasks of the inbox that have places among the held ones, by ID.
local lanes, list = {}, {}
local function laneOf(key)
  local lane = lanes[key]
  if not lane then
    lane = { key = key, f = 1, m = 1, s = 1 }
    lanes[key], list[#list + 1] = lane, lane
  end
  return lane
end

-- The tasks that have ended give up their places, unless they run again elsewhere.
local ended, names, woken, kept = {}, {}, {}, 0
for i = 1, (#ARGV - 13) / 2 do
  local key, id = ARGV[2 * i + 12], ARGV[2 * i + 13]
  ended[i], names[i] = id, key .. "\0" .. id
  if blocked > 0 and not woken[key] then
    woken[key], woken[#woken + 1] = true, key
  end
end
if #ended > 0 then
  local leases, gone = redis.call("ZMSCORE", KEYS[2], unpack(ended)), {}
  for i, name in ipairs(names) do
    if leases[i] then
      kept = kept + 1
    else
      gone[#gone + 1] = name
    end
  end
  if #gone > 0 then
    redis.call("ZREM", KEYS[10], unpack(gone)) -- the first write, allowed at maxmemory
  end
end
local checked = {}
if n > 0 and blocked > 0 then
  -- Servers check a limit at least every minute, so later times are those of a clock that was set
  -- back.
  for _, range in ipairs({ { "-inf", string.format("%d", now_ms) }, { string.format("%d", now_ms + 60001), "1e15" } }) do
    for _, key in ipairs(redis.call("ZRANGEBYSCORE", KEYS[9], range[1], range[2], "LIMIT", "0", "100")) do
      if not woken[key] then
        woken[key], woken[#woken + 1] = true, key
      end
      checked[key] = true
    end
  end
end
if #woken > 0 then
  local names = {}
  for i, key in ipairs(woken) do
    names[i] = "k" .. key
  end
  local until_ms, vts = redis.call("ZMSCORE", KEYS[9], unpack(woken)), redis.call("HMGET", KEYS[12], unpack(names))
  for i, key in ipairs(woken) do
    if number(until_ms[i]) < 1e15 then
      local lane = laneOf(key)
      lane.was, lane.vt, lane.check = "blocked", math.max(tonumber(vts[i] or "") or 0, virtual), checked[key]
    end
  end
end
local sweep -- where the next check of running tasks continues; false = at the first one
if ARGV[12] == "1" then
  local from = redis.call("HGET", KEYS[12], "sweep")
  local members = redis.call("ZRANGEBYLEX", KEYS[10], from and "(" .. from or "-", "+", "LIMIT", "0", "200")
  local keys = {}
  for _, member in ipairs(members) do
    local key = string.sub(member, 1, (string.find(member, "\0", 1, true) or 0) - 1)
    if not keys[key] then
      keys[key] = true
      runningOf(key)
    end
  end
  sweep = #members == 200 and members[200]
end

local function remove(key, names)
  for i = 1, #names, 1000 do
    redis.call("ZREM", key, unpack(names, i, math.min(i + 999, #names)))
  end
end
local function add(key, pairs)
  for i = 1, #pairs, 1000 do
    redis.call("ZADD", key, unpack(pairs, i, math.min(i + 999, #pairs)))
  end
end

local reply, r = {}, 0
-- activate(tasks) makes tasks active, and adds them to the reply. They are no longer pending, and
-- those that were held have lost their places.
local function activate(tasks)
  if #tasks == 0 then
    return
  end
  local leases, ids, running = {}, {}, {}
  local expiry = string.format("%d", now + tonumber(ARGV[3]) + (us > 0 and 1 or 0))
  for i, t in ipairs(tasks) do
    leases[2 * i - 1], leases[2 * i], ids[i] = expiry, t.id, t.id
    running[2 * i - 1], running[2 * i] = "0", t.key .. "\0" .. t.id
  end
  addMany(redis.call, KEYS[2], leases)
  local length = redis.call("LPUSH", KEYS[1], unpack(ids))
  local behind = length >= LONG and length - #tasks
  for i, t in ipairs(tasks) do
    local task = t.task or ARGV[1] .. t.id
    if behind then
      redis.call("HSET", task, "state", "active", "token", ARGV[4], "position", string.format("%d", behind + i))
    else
      redis.call("HSET", task, "state", "active", "token", ARGV[4])
    end
    if t.member or t.held then
      redis.call("HDEL", task, "pending_since", "held")
    else
      redis.call("HDEL", task, "pending_since")
    end
    reply[r + 1], reply[r + 2] = t.id, t.msg
    r = r + 2
    if ARGV[8] == "1" then
      r = r + 1
      reply[r] = waited(t.since, now, us)
    end
  end
  addMany(redis.call, KEYS[10], running)
  redis.call("EXPIRE", KEYS[10], "172800")
end

-- answer(remain, next_ms) ends the call.
local function answer(remain, next_ms)
  if sweep then
    redis.call("HSET", KEYS[12], "sweep", sweep)
    redis.call("EXPIRE", KEYS[12], "172800")
  elseif sweep == false then
    redis.call("HDEL", KEYS[12], "sweep")
  end
  remain = code == OK and remain or 0
  if remain > 0 and ARGV[7] == "1" then
    mark(KEYS[5])
  end
  local out = { code, now_ms, remain, next_ms, kept }
  for i = 1, r do
    out[i + 5] = reply[i]
  end
  return out
end

-- While nothing is held and all partitions have the same shares, sorting may not be needed.
if held + readies + blocked == 0 and not own and not ordered and default.interval == 0 and (n > 0 or ARGV[13] == "1") then
  local first, remain = {}, redis.call("LLEN", KEYS[3]) > 0
  if n > 0 then
    first, remain = firstTasks(KEYS[3], KEYS[10], ARGV[1], n, by_type, default.concurrency, ARGV[13] == "1", ARGV[8])
  end
  if first then
    redis.call("LTRIM", KEYS[3], "0", string.format("%d", -#first - 1)) -- the first write, allowed at maxmemory
    remove(KEYS[10], unrun)
    activate(first)
    if #first < n then
      code = OK -- the cap did not limit the call
    end
    return answer(remain and 1 or 0, 0)
  end
end

-- Read the inbox.
local ids = redis.call("LRANGE", KEYS[3], "-501", "-1")
local misplaced = {} -- tasks whose places are those of other partitions
local first, bytes, seen = #ids > 500 and 2 or 1, 0, {}
local inbox, keys, messages, since, marks, holders, size = {}, {}, {}, {}, {}, {}, 0
for i = #ids, first, -1 do
  local id = ids[i]
  local f = fields(ARGV[1] .. id, "state", "msg", "held", "pending_since")
  if f[1] ~= "pending" or seen[id] then
    reply[r + 1], reply[r + 2] = id, false
    r = r + 2
    if ARGV[8] == "1" then
      r = r + 1
      reply[r] = -1
    end
  else
    local msg = f[2] or ""
    size, seen[id], bytes = size + 1, true, bytes + #msg
    inbox[size], messages[size], since[size] = id, msg, f[4]
    local key = partition(msg, by_type)
    keys[size], marks[size] = key, f[3] and string.sub(f[3], 1, -18) == key and f[3]
    if f[3] and not marks[size] then
      unheld[#unheld + 1], misplaced[#misplaced + 1] = f[3] .. id, id -- it was in another partition
    end
    if bytes >= 1048576 and i > first then
      first = i
      break
    end
  end
end
local left = first > 1
if left then
  code = OK -- the cap did not limit the call, and the next one continues
end
if ordered and size > 0 then
  local members = {}
  for i, key in ipairs(keys) do
    members[i] = key .. "\0" .. inbox[i]
  end
  for i, runs in ipairs(redis.call("ZMSCORE", KEYS[10], unpack(members))) do
    holders[i] = runs and members[i] -- it was retried or recovered, and precedes the others
  end
end

-- If more of the inbox is left, the call starts nothing: a partition that it has not read yet may
-- come first. Else it continues with lanes.
if not left then
  local back, names = {}, {}
  for i, key in ipairs(keys) do
    local lane, t = laneOf(key), { id = inbox[i], msg = messages[i], since = since[i], held = marks[i], holder = holders[i] }
    if t.holder then
      lane.front, lane.holds = lane.front or {}, true
      table.insert(lane.front, 1, t)
    elseif t.held then
      back[#back + 1], names[#names + 1] = t, t.held .. t.id -- it was held for a day
      t.key = key
    else
      lane.mem = lane.mem or {}
      lane.mem[#lane.mem + 1] = t
    end
  end
  local has = #back > 0 and redis.call("ZMSCORE", KEYS[7], unpack(names)) or {}
  for i, t in ipairs(back) do
    local lane = lanes[t.key]
    if has[i] then
      lane.back = lane.back or {} -- it starts from its place
      lane.back[t.id] = t
    else
      lane.front = lane.front or {} -- the lanes were lost
      lane.front[#lane.front + 1] = t
    end
  end
  local unknown = {}
  names = {}
  for _, lane in ipairs(list) do
    if not lane.vt then
      unknown[#unknown + 1], names[#names + 1] = lane, lane.key
    end
  end
  local vts = readies > 0 and #names > 0 and redis.call("ZMSCORE", KEYS[8], unpack(names)) or {}
  local at = blocked > 0 and #names > 0 and redis.call("ZMSCORE", KEYS[9], unpack(names)) or {}
  for i, lane in ipairs(unknown) do
    if vts[i] then
      lane.vt, lane.was = tonumber(vts[i]), "ready"
    elseif at[i] then
      lane.was, lane.waits = "blocked", not lane.holds
      lane.vt = math.max(tonumber(redis.call("HGET", KEYS[12], "k" .. lane.key) or "") or 0, virtual)
    else
      lane.vt = virtual
    end
  end
end

-- prepare(lane) reads the settings of a partition and how much of its limits is used.
local function prepare(lane)
  local set = own and redis.call("HGET", KEYS[13], lane.key)
  set = set and settings(set, default) or default
  if ordered then
    set.concurrency = 1 -- also if the settings of the partition allow more
  end
  lane.set, lane.running = set, 0
  if set.concurrency > 0 then
    if lane.check then
      lane.running = runningOf(lane.key)
    else
      lane.running = redis.call("ZLEXCOUNT", KEYS[10], "[" .. lane.key .. "\0", "(" .. lane.key .. "\1")
    end
  end
  if set.interval > 0 then
    local tat = tonumber(redis.call("ZSCORE", KEYS[11], lane.key) or "") or 0
    lane.tat = math.min(math.max(tat, now_us), math.ceil(now_us + set.interval * set.burst))
    lane.spent = lane.tat < tat -- the clock was set back: the new time is stored
  end
end

-- next(lane) returns whether a lane has tasks, and makes lane.stored[lane.s] its next held task, if
-- it is one. Held tasks are not read yet.
local function next(lane)
  if (lane.front and lane.front[lane.f]) then
    return true
  end
  while held > 0 and not lane.exhausted and not (lane.stored and lane.stored[lane.s]) do
    local from = lane.last and "(" .. lane.last or "[" .. lane.key .. "\0"
    local size = math.ceil(n / (readies + #list)) + 1
    lane.stored = redis.call("ZRANGEBYLEX", KEYS[7], from, "(" .. lane.key .. "\1", "LIMIT", "0", string.format("%d", size))
    lane.s, lane.exhausted, lane.last = 1, #lane.stored < size, lane.stored[#lane.stored] or lane.last
  end
  return lane.stored and lane.stored[lane.s] or (lane.mem and lane.mem[lane.m])
end

-- peek(lane) returns the first task of a lane, and the name of its index. It reads at most 500
-- places of tasks that others have deleted or moved; if there are more, it sets tired.
local tired
local function peek(lane)
  while next(lane) do
    tired = #stale >= 500
    if tired then
      return
    end
    if (lane.front and lane.front[lane.f]) then
      return (lane.front and lane.front[lane.f]), "f"
    elseif not (lane.stored and lane.stored[lane.s]) then
      return (lane.mem and lane.mem[lane.m]), "m"
    elseif lane.read then
      return lane.read, "s"
    end
    local member = lane.stored[lane.s]
    local id = string.sub(member, #lane.key + 18)
    local t = lane.back and lane.back[id]
    if t and t.held .. id == member then
      lane.read = t
      return t, "s"
    end
    local f = not seen[id] and fields(ARGV[1] .. id, "state", "msg", "held", "pending_since")
    if f and f[1] == "scheduled" and f[3] == string.sub(member, 1, #lane.key + 17) then
      lane.read = { id = id, msg = f[2] or "", since = f[4], member = member }
      return lane.read, "s"
    elseif f then
      stale[#stale + 1] = member
    end
    lane.s = lane.s + 1
  end
end

local started = {}
-- serve(lane) starts the first task of a lane. It returns false if there is none, or a limit blocks
-- it.
local function serve(lane)
  local ready = next(lane)
  if ready and not lane.set then
    prepare(lane)
  end
  local set, front = lane.set, lane.front and lane.front[lane.f]
  if not ready then
    lane.done = true
    virtual = math.max(virtual, lane.vt) -- no other waits before it
    return false
  elseif set.paused then
    lane.until_ms = "+inf"
    return false
  elseif set.concurrency > 0 and lane.running >= set.concurrency and not (front and front.holder) then
    lane.until_ms = now_ms + 5000
    return false
  end
  if set.interval > 0 then
    if lane.tat - now_us > set.interval * (set.burst - 1) then
      lane.until_ms = math.min(math.ceil((lane.tat - set.interval * (set.burst - 1)) / 1000), now_ms + 60000)
      return false
    end
  end
  local t, at = peek(lane) -- now, because it reads the message
  if not t then
    lane.done = not tired
    return false
  end
  if set.interval > 0 then
    lane.tat, lane.spent = lane.tat + set.interval, true
  end
  lane[at], lane.read = lane[at] + 1, nil
  if not t.holder then
    lane.running = lane.running + 1
  end
  t.key, t.started = lane.key, true
  started[#started + 1] = t
  virtual = lane.vt
  lane.vt = lane.vt + 1 / set.weight
  return true
end

local slice, at, offset, more = {}, 1, 0, left
if not left and n > 0 then
  bytes = 0
  local heap = { [0] = 0 }
  for _, lane in ipairs(list) do
    if not lane.waits then
      push(heap, lane)
    end
  end
  -- frontier() returns the first partition of ready that the call has not read yet.
  local function frontier()
    if at > #slice and offset < readies then
      slice = redis.call("ZRANGE", KEYS[8], string.format("%d", offset), string.format("%d", offset + n - 1), "WITHSCORES")
      at, offset = 1, offset + n
    end
    return slice[at], tonumber(slice[at + 1])
  end
  local examined = 0
  while #started < n and examined < 1000 and bytes < 1048576 and not tired do
    local key, vt = frontier()
    while key and lanes[key] do
      at = at + 2
      key, vt = frontier()
    end
    if key and (heap[0] == 0 or vt < heap[1].vt) then
      at = at + 2
      local lane = laneOf(key)
      lane.vt, lane.was = vt, "ready"
      push(heap, lane)
    end
    if heap[0] == 0 then
      break
    end
    local lane = pop(heap)
    examined = examined + 1
    if serve(lane) then
      bytes = bytes + #started[#started].msg
      local set = lane.set
      if set.concurrency > 0 and lane.running >= set.concurrency and not (lane.front and lane.front[lane.f]) then
        lane.until_ms = next(lane) and now_ms + 5000
        lane.done = not lane.until_ms
      elseif next(lane) then
        push(heap, lane)
      else
        lane.done = true
      end
    end
  end
  local key = frontier()
  while key and lanes[key] do
    at = at + 2
    key = frontier()
  end
  more = tired or heap[0] > 0 or key ~= nil
  if #started < n then
    code = OK -- the cap did not limit the call
  end
elseif n == 0 then
  more = left or #list > 0 -- another server may start them
end

-- Write. The first write is allowed at maxmemory.
redis.call("LTRIM", KEYS[3], "0", string.format("%d", first - 2 - #ids))
for _, id in ipairs(misplaced) do
  redis.call("HDEL", ARGV[1] .. id, "held")
end
for _, t in ipairs(started) do
  local member = t.member or t.held and t.held .. t.id
  if t.member then
    due[#due + 1] = t.id
  end
  if member then
    unheld[#unheld + 1] = member
  end
end
local hold, later, after = {}, {}, string.format("%d", now + 86400)
local places, new = 0, {}
-- keep(key, id, held, holder) holds a task: one that was held before in its place, a holder before
-- all others of its partition.
local function keep(key, id, held, holder)
  local at = seq
  if holder then
    unrun[#unrun + 1] = holder
    local head = redis.call("ZRANGEBYLEX", KEYS[7], "[" .. key .. "\0", "(" .. key .. "\1", "LIMIT", "0", "1")[1]
    at = head and tonumber(string.sub(head, #key + 2, #key + 17)) - 1 or seq
  end
  if not held then
    held, seq = key .. "\0" .. string.format("%016d", at), seq + 1
  end
  hold[places + 1], hold[places + 2] = "0", held .. id
  later[places + 1], later[places + 2] = after, id
  places = places + 2
  redis.call("HSET", ARGV[1] .. id, "state", "scheduled", "held", held)
end
if left then
  for i, key in ipairs(keys) do
    keep(key, inbox[i], marks[i], holders[i])
    if not new[key] then
      new[key] = true
      new[#new + 1] = key
    end
  end
end
local to_ready, to_blocked, vts, unready, unblocked, forget, rates = {}, {}, {}, {}, {}, {}, {}
for _, lane in ipairs(list) do
  for i = lane.f, lane.front and #lane.front or 0 do
    local t = lane.front[i]
    keep(lane.key, t.id, t.held, t.holder)
  end
  for id, t in pairs(lane.back or {}) do
    if not t.started then
      keep(lane.key, id, t.held)
    end
  end
  for i = lane.m, lane.mem and #lane.mem or 0 do
    keep(lane.key, lane.mem[i].id)
  end
  if lane.spent then
    rates[#rates + 1], rates[#rates + 2] = string.format("%d", math.ceil(lane.tat)), lane.key
  end
  local into = (lane.until_ms or lane.waits or lane.check and not lane.set and not lane.done) and "blocked" or "ready"
  if lane.done and lane.vt <= virtual then
    into = nil
  end
  if lane.was == "ready" and into ~= "ready" then
    unready[#unready + 1] = lane.key
  elseif lane.was == "blocked" and into ~= "blocked" then
    unblocked[#unblocked + 1], forget[#forget + 1] = lane.key, "k" .. lane.key
  end
  if into == "ready" then
    to_ready[#to_ready + 1], to_ready[#to_ready + 2] = string.format("%.17g", lane.vt), lane.key
  elseif lane.until_ms then
    to_blocked[#to_blocked + 1] = lane.until_ms == "+inf" and "+inf" or string.format("%d", lane.until_ms)
    to_blocked[#to_blocked + 1] = lane.key
    vts[#vts + 1], vts[#vts + 2] = "k" .. lane.key, string.format("%.17g", lane.vt)
  end
end
remove(KEYS[7], stale)
remove(KEYS[7], unheld)
remove(KEYS[6], due)
remove(KEYS[10], unrun)
if #hold > 0 then
  add(KEYS[7], hold)
  add(KEYS[6], later)
  redis.call("EXPIRE", KEYS[7], "172800")
end
activate(started)
if #rates > 0 then
  -- Times that have passed limit nothing. Each call removes as many as it adds, and one more.
  remove(KEYS[11], redis.call("ZRANGEBYSCORE", KEYS[11], "-inf", string.format("(%d", now_us), "LIMIT", "0",
    string.format("%d", #rates / 2 + 1)))
  add(KEYS[11], rates)
  redis.call("EXPIRE", KEYS[11], "172800")
end
local next_ms = 0
if held + #hold == 0 or redis.call("ZCARD", KEYS[7]) == 0 then
  if readies + blocked > 0 then
    redis.call("DEL", KEYS[8], KEYS[9], KEYS[12])
  end
else
  remove(KEYS[8], unready)
  remove(KEYS[9], unblocked)
  for i = 1, #forget, 1000 do
    redis.call("HDEL", KEYS[12], unpack(forget, i, math.min(i + 999, #forget)))
  end
  if #new > 0 then
    local at = blocked > 0 and redis.call("ZMSCORE", KEYS[9], unpack(new)) or {}
    local vt, args = string.format("%.17g", virtual), {}
    for i, key in ipairs(new) do
      if not at[i] and not lanes[key] then
        args[#args + 1], args[#args + 2] = vt, key
      end
    end
    if #args > 0 then
      redis.call("ZADD", KEYS[8], "NX", unpack(args))
    end
  end
  add(KEYS[8], to_ready)
  add(KEYS[9], to_blocked)
  vts[#vts + 1], vts[#vts + 2], vts[#vts + 3], vts[#vts + 4] = "v", string.format("%.17g", virtual), "seq", string.format("%d", seq)
  for i = 1, #vts, 1000 do
    redis.call("HSET", KEYS[12], unpack(vts, i, math.min(i + 999, #vts)))
  end
  redis.call("EXPIRE", KEYS[8], "172800")
  redis.call("EXPIRE", KEYS[9], "172800")
  redis.call("EXPIRE", KEYS[12], "172800")
  local head = redis.call("ZRANGE", KEYS[9], "0", "0", "WITHSCORES")
  next_ms = number(head[2]) < 1e15 and math.min(number(head[2]), now_ms + 60000) or 0
end
return answer(left and 2 or more and 1 or 0, next_ms)
