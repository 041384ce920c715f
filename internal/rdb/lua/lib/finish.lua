-- finish(active, lease, processed, today, ttl, tasks, length, tokens, locks) is done.lua: tasks are the keys, locks the arguments for them.
local function finish(active, lease, processed, today, ttl, tasks, length, tokens, locks)
  local codes, ids, doomed, done = {}, {}, {}, 0
  local i, from = 0, length + 1
  for token, n in string.gmatch(tokens, "(%S*)%*(%d+)") do
    for _ = 1, tonumber(n) do
      i = i + 1
      local task = tasks[i]
      local f, code = fields(task, "state", "token"), OK
      if f[1] == "active" and (f[2] or "") == token then
        done = done + 1
        ids[done], doomed[done] = string.sub(task, from), task
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
        doomed[#doomed + 1] = locks[l + 1]
      end
    end
    strike(active, lease, ids)
    redis.call("DEL", unpack(doomed))
    count(processed, today, done, ttl)
  end
  return done == #codes and OK or codes
end
