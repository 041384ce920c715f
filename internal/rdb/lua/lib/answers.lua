-- A client that does not hear the answer of a call sends the call again. By then its tasks may have run, and be gone: only a record
-- of the sender's last call tells that it was executed. It is the number of the call, and after a colon the codes if they are not
-- all OK, one digit each, to the base of 36. It lives for as long as a call may be sent again.
local function spell(seq, codes, fine)
  if fine == #codes then
    return seq
  end
  local digits = {}
  for i, code in ipairs(codes) do
    digits[i] = code < 10 and code or string.char(87 + code)
  end
  return seq .. ":" .. table.concat(digits)
end

-- told(record, seq, n) returns what a record says that call number seq was answered for its n tasks, nil if it was not executed. To
-- a call that lingered somewhere until after the sender's next one, the answer is STALE for each.
local function told(record, seq, n)
  local last, digits = string.match(record or "", "^(%d+):?(%w*)$")
  if not last or tonumber(last) < tonumber(seq) then
    return nil
  end
  local codes = {}
  for i = 1, n do
    codes[i] = last ~= seq and STALE or digits == "" and OK or tonumber(string.sub(digits, i, i), 36)
  end
  return codes
end

-- answered(record, seq, n) returns the answer that call number seq was given before, as told does.
local function answered(record, seq, n)
  return told(redis.call("GET", record), seq, n)
end

-- remember(record, seq, codes) keeps the answer of a call.
local function remember(record, seq, codes)
  redis.call("SET", record, spell(seq, codes), "EX", "60")
end

-- recall(record, seq, codes, fine) does both in one command, before the first write of a call that is about to answer with these codes,
-- fine of them OK. It returns the answer that was given before, if there was one; or else nil and the record as it was, with which
-- forget(record, old) takes back a call that failed.
local function recall(record, seq, codes, fine)
  if fine == 0 then
    return answered(record, seq, #codes)
  end
  local old = redis.call("SET", record, spell(seq, codes, fine), "EX", "60", "GET")
  local answer = told(old, seq, #codes)
  if answer then
    redis.call("SET", record, old, "EX", "60")
  end
  return answer, old
end

local function forget(record, old)
  if old then
    redis.call("SET", record, old, "EX", "60")
  else
    redis.call("DEL", record)
  end
end
