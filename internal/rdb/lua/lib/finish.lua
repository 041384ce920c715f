-- finish(active, lease, processed, today, ttl, tasks, length, tokens, locks) implements done.lua:
-- tasks are the keys, locks the arguments of the locks. It returns the reply, and the number and
-- the IDs of the tasks that it has settled.
local function finish(active, lease, processed, today, ttl, tasks, length, tokens, locks)
  local codes, ids, toDelete, done = {}, {}, {}, 0
  local i, from = 0, length + 1
  for token, n in string.gmatch(tokens, "(%S*)%*(%d+)") do
    for _ = 1, tonumber(n) do
      i = i + 1
      local task = tasks[i]
      local f, code = fields(task, "state", "token"), OK
      if f[1] == "active" and (f[2] or "") == token then
        done = done + 1
        ids[done], toDelete[done] = string.sub(task, from), task
      else
        code = held(task, token)
      end
      codes[i] = code
    end
  end
  if done > 0 then
    for l = 1, #locks, 2 do
      local task = tonumber(locks[l])
      if codes[task] == OK and owns(locks[l + 1], string.sub(tasks[task], from)) then
        toDelete[#toDelete + 1] = locks[l + 1]
      end
    end
    removeActive(active, lease, string.sub(tasks[1], 1, from - 1), ids)
    redis.call("DEL", unpack(toDelete))
    count(processed, today, done, ttl)
  end
  return done == #codes and OK or codes, done, ids
end
