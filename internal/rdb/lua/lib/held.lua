-- held(task, token, by) returns whether the task is active under the fetch token. If it is not, the
-- field "settled" shows whether an earlier attempt of the same call settled it, in the name of by
-- or, by default, of the token. If by is "", the call settles nothing and requires an active task.
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
