-- Judges uniqueness locks whose holder seems to be gone, and deletes those that nobody would ever give up.
--
-- KEYS[1..]  for each task: its hash, its lock
-- ARGV[1]    1 to delete, 0 to look only
-- ARGV[2..]  for each task: id
-- RETURN     for each task: what was found, 1 if the lock was deleted
-- BOUND      200 locks
-- include: fields locks findings

-- knows(task, lock) says whether a lock's holder knows of it. Other libraries leave it out of the hash of a task with a group: its
-- message tells. A completed task has no lock, whatever its message says.
local function knows(task, lock)
  local f = fields(task, "unique_key", "state")
  if f[1] or not f[2] or f[2] == "completed" then
    return f[1] == lock
  end
  local msg = fields(task, "msg")[1]
  return msg and string.find(msg, lock, 1, true)
end

local reply, doomed = {}, {}
local a = 2
for k = 1, #KEYS, 2 do
  local finding = SOUND
  if owns(KEYS[k + 1], ARGV[a]) and not knows(KEYS[k], KEYS[k + 1]) then
    finding = ORPHAN_LOCK
    doomed[#doomed + 1] = KEYS[k + 1]
  end
  reply[#reply + 1] = finding
  reply[#reply + 1] = finding ~= SOUND and tonumber(ARGV[1]) or 0
  a = a + 1
end
if #doomed > 0 and ARGV[1] == "1" then
  redis.call("DEL", unpack(doomed))
end
return reply
