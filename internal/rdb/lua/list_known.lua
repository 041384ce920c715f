-- Looks up tasks of one state by their IDs.
--
-- KEYS[1]    lease
-- KEYS[2..]  the task's hash, for each task
-- ARGV[1]    the state
-- ARGV[2]    bytes after which to stop
-- ARGV[3..]  for each task: id
-- RETURN     {1 if all were looked up, unix nanoseconds now, then for each task:
--             id, 1 if it is active and its lease has ended and 0 if not, msg, result, pending_since, group}, as lib/look.lua says
-- BOUND      200 tasks, and ARGV[2] with what the last task goes beyond
-- include: fields clock expired look

local now, us = clock()
local now_ns = nanoseconds(now, us)
local bytes = tonumber(ARGV[2])
local reply = { 1, now_ns }
for i = 1, #KEYS - 1 do
  local id = ARGV[i + 2]
  local orphaned = ARGV[1] == "active" and expired(KEYS[1], id, now) and 1 or 0
  bytes = bytes - look(reply, KEYS[i + 1], id, ARGV[1], orphaned)
  if bytes <= 0 and i < #KEYS - 1 then
    reply[1] = 0
    break
  end
end
return reply
