-- A client that does not hear the answer of a call sends the call again. By then its tasks may have run, and be gone: only a record
-- of the last call tells that it was executed.
--
-- answered(record, seq, n) returns the answer that call number seq of a sender was given before, nil if it was not executed. To
-- a call that lingered somewhere until after the sender's next one, the answer is STALE for each of its n tasks.
local function answered(record, seq, n)
  local last, digits = string.match(redis.call("GET", record) or "", "^(%d+):(%w*)$")
  if not last or tonumber(last) < tonumber(seq) then
    return nil
  end
  local codes = {}
  for i = 1, n do
    codes[i] = last == seq and tonumber(string.sub(digits, i, i), 36) or STALE
  end
  return codes
end

-- remember(record, seq, codes) keeps the answer of a call for as long as it may be sent again: one digit a code, to the base of 36.
local function remember(record, seq, codes)
  local answer = seq .. ":" .. table.concat(codes)
  if #answer > #seq + 1 + #codes then
    local digits = {}
    for i, code in ipairs(codes) do
      digits[i] = code < 10 and code or string.char(87 + code)
    end
    answer = seq .. ":" .. table.concat(digits)
  end
  redis.call("SET", record, answer, "EX", 60)
end
