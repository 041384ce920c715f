-- Makes new tasks that wait in a group to be aggregated.
--
-- KEYS[1]    groups
-- KEYS[2]    groups_due
-- KEYS[3]    record of the sender's last call
-- KEYS[4..]  for each task: its hash, its group
-- ARGV[1]    number of the sender's call
-- ARGV[2]    length of the prefix of the task keys; the rest is the ID
-- ARGV[3..]  for each task: msg, name of the group; then for each lock: number of its task, lock, TTL in seconds
-- RETURN     OK if all tasks are made, else for each task: OK, CONFLICT or DUPLICATE; STALE if a later call of the sender was executed
-- BOUND      500 tasks
-- include: codes clock gather answers create

redis.call("SCARD", KEYS[1])
redis.call("ZCARD", KEYS[2])
local tasks = {}
for k = 4, #KEYS, 2 do
  tasks[#tasks + 1] = KEYS[k]
  redis.call("ZCARD", KEYS[k + 1])
end
local ids, locks, codes, fine = newcomers(tasks, ARGV[2], { unpack(ARGV, 2 * #tasks + 3) })
local answer = recall(KEYS[3], ARGV[1], codes, fine)
if answer or fine == 0 then
  return answer or codes
end
local entries = {}
for i, id in ipairs(ids) do
  if codes[i] == OK then
    local group, lock = ARGV[2 * i + 2], locks[i]
    create(tasks[i], id, ARGV[2 * i + 1], "aggregating", lock and lock[1], lock and lock[2], "group", group)
    entries[#entries + 1] = { KEYS[2 * i + 3], group, id }
  end
end
gather(KEYS[1], KEYS[2], entries, (clock()))
return fine == #codes and OK or codes
