-- Makes new tasks that are to be processed later.
--
-- KEYS[1]    scheduled
-- KEYS[2]    marker
-- KEYS[3]    record of the sender's last call
-- KEYS[4..]  the task's hash, for each task
-- ARGV[1]    number of the sender's call
-- ARGV[2]    length of the prefix of the task keys; the rest is the ID
-- ARGV[3..]  for each task: msg, time to process in unix seconds, name of the group to wait in from then on ("" = none);
--            then for each lock: number of its task, lock, TTL in seconds
-- RETURN     OK if all tasks are made, else for each task: OK, CONFLICT or DUPLICATE; STALE if a later call of the sender was executed
-- BOUND      500 tasks
--
-- A task that is now the first one due leaves the marker: the server that it wakes looks again how long it may sleep.
-- include: codes mark answers create

redis.call("ZCARD", KEYS[1])
local tasks = { unpack(KEYS, 4) }
local free = redis.call("EXISTS", unpack(tasks)) == 0
local ids, locks, codes, fine = newcomers(tasks, ARGV[2], { unpack(ARGV, 3 * #tasks + 3) }, free)
local answer = recall(KEYS[3], ARGV[1], codes, fine)
if answer or fine == 0 then
  return answer or codes
end
local new, entries = {}, {}
for i, id in ipairs(ids) do
  if codes[i] == OK then
    local group, lock = ARGV[3 * i + 2], locks[i]
    create(tasks[i], id, ARGV[3 * i], "scheduled", lock and lock[1], lock and lock[2], group ~= "" and "group", group)
    entries[#entries + 1] = ARGV[3 * i + 1]
    entries[#entries + 1] = id
    new[id] = true
  end
end
redis.call("ZADD", KEYS[1], unpack(entries))
if new[redis.call("ZRANGE", KEYS[1], "0", "0")[1]] then
  mark(KEYS[2])
end
return fine == #codes and OK or codes
