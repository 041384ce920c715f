-- look(reply, task, id, state, extra) adds what is known of a task to the reply: id, extra, msg, result, pending_since, group. msg is
-- false if no task of that state has the ID, and "" if the task has none. It returns how many bytes it added, roughly.
local function look(reply, task, id, state, extra)
  local f = fields(task, "state", "msg", "result", "pending_since", "group")
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5], reply[n + 6] = id, extra, false, false, false, false
  if f[1] ~= state then
    return #id
  end
  reply[n + 3], reply[n + 4], reply[n + 5], reply[n + 6] = f[2] or "", f[3], f[4], f[5]
  return #id + #(f[2] or "") + #(f[3] or "")
end
