-- A client that does not receive the reply of a call sends the call again. By then its tasks may
-- have run and been deleted, so only an idempotency record shows that the call was executed. The
-- record is the number of the last call and, unless all its codes are OK, a colon and one base-36
-- digit per code. It expires after 120 seconds; no call is retried for longer than 60.
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

-- decode(record, seq, n) returns the codes that a record holds for the n tasks of call seq, or nil
-- if the call was not executed. If a later call has replaced the record, every code is STALE.
local function decode(record, seq, n)
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

-- load(record, seq, n) returns the stored codes of call seq, as decode does.
local function load(record, seq, n)
  return decode(redis.call("GET", record), seq, n)
end

-- store(record, seq, codes, fine, ttl) stores the codes of a call, fine of which are OK. By default
-- fine is 0, which spells each code, and the TTL is 120 seconds.
local function store(record, seq, codes, fine, ttl)
  redis.call("SET", record, spell(seq, codes, fine), "EX", ttl or "120")
end

-- begin(record, seq, codes, fine) stores the codes of a call that creates fine tasks, unless it was
-- executed before: then it returns the stored codes, else nil. A call that creates none is not
-- stored, and returns its codes.
--
-- The numbers of the calls of a client ascend by one, so INCR advances the record, which takes a
-- fifth of the time of SET with GET and a TTL. It finds another number if the call was executed
-- before, if the record has expired, or if the client has skipped a number, which it does every 30
-- seconds because INCR leaves the TTL as it is. A number is never 1, which INCR would store without
-- a TTL.
local function begin(record, seq, codes, fine)
  if fine == #codes then
    local number = redis.pcall("INCR", record)
    if number == tonumber(seq) then
      return nil
    elseif type(number) == "number" then
      redis.call("DECR", record)
    end
  end
  local answer = load(record, seq, #codes)
  if answer or fine == 0 then
    return answer or codes
  end
  store(record, seq, codes, fine)
end
