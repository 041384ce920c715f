-- addEntry(reply, task, id, score, lease, now, ...) appends a task to the reply: id, state or nil
-- if there is no such task, score, 1 if it is active without an unexpired lease, else 0, msg,
-- result, pending_since, group, and the further fields. It returns the approximate number of bytes
-- added, and the state.
local function addEntry(reply, task, id, score, lease, now, ...)
  local f = fields(task, "state", "msg", "result", "pending_since", "group", ...)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = id, f[1] or false, score
  reply[n + 4] = f[1] == "active" and expired(lease, id, now) and 1 or 0
  reply[n + 5], reply[n + 6], reply[n + 7], reply[n + 8] = f[2] or false, f[3] or false, f[4] or false, f[5] or false
  for i = 6, 5 + select("#", ...) do
    reply[n + 3 + i] = f[i] or false
  end
  return #id + #(f[2] or "") + #(f[3] or ""), f[1]
end
