-- kept(id, old) returns the encoded fields that a task keeps when its message is replaced: its ID,
-- and from the old message the number of retries, the last error and its time. They are appended to
-- the new message: of a repeated field, decoders take the last value.
local function kept(id, old)
  local size, length = "", #id
  while length > 127 do
    size, length = size .. string.char(length % 128 + 128), math.floor(length / 128)
  end
  local parts, i = "\26" .. size .. string.char(length) .. id, 1 -- field 3
  while i <= #old do
    local tag, at = varint(old, i)
    local kind, value = tag and tag % 8, nil
    if kind == 0 then
      value, at = varint(old, at)
    elseif kind == 2 then
      value, at = varint(old, at)
      at = value and at + value
    else
      at = kind == 5 and at + 4 or kind == 1 and at + 8
    end
    if not at or at > #old + 1 then
      break -- malformed: the new message replaces it
    end
    if tag == 48 or tag == 58 or tag == 88 then -- retried, error_msg, last_failed_at
      parts = parts .. string.sub(old, i, at - 1)
    end
    i = at
  end
  return parts
end
