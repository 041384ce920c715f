-- held(task, token, by) says whether the task is active under the fetch token. Where it is not, "settled" tells whether an earlier try
-- of the same call ended the attempt: in the name of by, or else of the token. By "" nothing is ended: the call wants the task active.
local function held(task, token, by)
  local f = fields(task, "state", "token")
  if not f[1] then
    return GONE
  end
  if f[1] == "active" and (f[2] or "") == token then
    return OK
  end
  by = by or token
  if by ~= "" and fields(task, "settled")[1] == by then
    return ALREADY
  end
  return LOST
end

-- settle(task, by, msg, state, ...) ends an attempt in the task's hash. The token goes: another library's process may take the
-- task next, and does not know the field. An empty message stays as it is; ... are further fields with their values.
local function settle(task, by, msg, state, ...)
  if msg == "" then
    redis.call("HSET", task, "state", state, "settled", by, ...)
  else
    redis.call("HSET", task, "msg", msg, "state", state, "settled", by, ...)
  end
  redis.call("HDEL", task, "token")
end
