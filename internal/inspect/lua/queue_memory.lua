-- Estimates the memory of a queue from a sample of its tasks.
--
-- KEYS[1]  pending
-- KEYS[2]  active
-- KEYS[3]  lease
-- KEYS[4]  scheduled
-- KEYS[5]  retry
-- KEYS[6]  archived
-- KEYS[7]  completed
-- KEYS[8]  groups
-- KEYS[9]  aggregation_sets
-- ARGV[1]  prefix of the task keys
-- ARGV[2]  prefix of the group keys
-- ARGV[3]  number of tasks per state, and of groups, to sample
-- ARGV[4]  number of tasks in groups and aggregation sets
-- RETURN   bytes, or -1 if Redis does not allow MEMORY USAGE
-- BOUND    ARGV[3], at most 100, for each of the seven states
--
-- Redis samples five elements of a large key, so the cost of a key does not depend on its size.
-- include: fields

local most, refused = tonumber(ARGV[3]), false
local function usage(key)
  local n = redis.pcall("MEMORY", "USAGE", key)
  if type(n) == "table" then
    refused = true
  end
  return type(n) == "number" and n or 0
end
local function task(id)
  local key = ARGV[1] .. id
  local lock = fields(key, "unique_key")[1]
  return usage(key) + (lock and lock ~= "" and usage(lock) or 0)
end
-- sampled(size, get) estimates the memory of size tasks from evenly spread samples; get returns the
-- task at an index.
local function sampled(size, get)
  local n, bytes = math.min(size, most), 0
  for i = 0, n - 1 do
    local id = get(math.floor((i + 0.5) * size / n))
    bytes = bytes + (id and task(id) or 0)
  end
  return n > 0 and bytes / n * size or 0
end

local function list(key)
  return usage(key) + sampled(redis.call("LLEN", key), function(i) return redis.call("LINDEX", key, i) end)
end
local function set(key)
  return usage(key) + sampled(redis.call("ZCARD", key), function(i) return redis.call("ZRANGE", key, i, i)[1] end)
end

local total = usage(KEYS[3]) + usage(KEYS[8]) + usage(KEYS[9])
total = total + list(KEYS[1]) + list(KEYS[2]) + set(KEYS[4]) + set(KEYS[5]) + set(KEYS[6]) + set(KEYS[7])
local tasks, counted = 0, 0
-- grouped(size, groups) estimates the memory of size sorted sets of tasks from some of them, and
-- samples the first task of each.
local function grouped(size, groups)
  local bytes = 0
  for _, key in ipairs(groups) do
    bytes = bytes + usage(key)
    local first = redis.call("ZRANGE", key, 0, 0)[1]
    if first then
      tasks, counted = tasks + task(first), counted + 1
    end
  end
  return #groups > 0 and bytes / #groups * size or 0
end
local groups, sets = {}, {}
for i, name in ipairs(redis.call("SRANDMEMBER", KEYS[8], most)) do
  groups[i] = ARGV[2] .. name
end
for _, key in ipairs(redis.call("ZRANGE", KEYS[9], 0, most - 1)) do
  if string.sub(key, 1, #ARGV[2]) == ARGV[2] then
    sets[#sets + 1] = key
  end
end
total = total + grouped(redis.call("SCARD", KEYS[8]), groups) + grouped(redis.call("ZCARD", KEYS[9]), sets)
if counted > 0 then
  total = total + tasks / counted * tonumber(ARGV[4])
end
return refused and -1 or math.floor(total)
