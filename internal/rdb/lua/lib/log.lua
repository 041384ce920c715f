-- prepend(log, value) returns the log of a task with a new entry in front. value is the maximum
-- number of entries, a space, and the entry. Each entry is a line.
local function prepend(log, value)
  local gap, at = string.find(value, " ", 1, true), 0
  local all = string.sub(value, gap + 1)
  if log and log ~= "" then
    all = all .. "\n" .. log
  end
  for _ = 1, tonumber(string.sub(value, 1, gap - 1)) do
    at = string.find(all, "\n", at + 1, true)
    if not at then
      return all
    end
  end
  return string.sub(all, 1, at - 1)
end
