-- partition(msg, by_type) returns the partition key of an encoded task: its type, or the key in its
-- header asynq-ext; "" if it has none. A type counts up to its first NUL.
--
-- It walks the fields of the message, because a payload may contain the same text. Numbers of one
-- byte are read without a call: this function takes most of the time of a task in the inbox.
local function partition(msg, by_type)
  if not by_type and not string.find(msg, "asynq-ext", 1, true) then
    return ""
  end
  local byte = string.byte
  local i, size, wanted = 1, #msg, by_type and 10 or 122 -- type, headers
  while i < size do
    local tag, value = byte(msg, i, i + 1)
    local at, kind = i + 2, tag % 8
    if tag > 127 then
      tag, at = varint(msg, i)
      kind, value = tag and tag % 8, at and byte(msg, at)
      at = at and at + 1
    end
    if (kind == 0 or kind == 2) and value and value > 127 then
      value, at = varint(msg, at - 1)
    end
    if not value then
      return ""
    elseif kind == 2 then
      local last = at + value - 1
      if tag == wanted and by_type then
        local text = string.sub(msg, at, last)
        return string.sub(text, 1, (string.find(text, "\0", 1, true) or 0) - 1)
      elseif tag == wanted and string.sub(msg, at, at + 11) == "\10\9asynq-ext\18" then
        local _, first = varint(msg, at + 12)
        local key = string.match(";" .. string.sub(msg, first or last + 1, last) .. ";", ";partition=([^;]*);") or ""
        if not string.find(key, "%", 1, true) then
          return key
        end
        return (string.gsub(key, "%%(%x%x)", function(hex)
          return string.char(tonumber(hex, 16))
        end))
      end
      at = last + 1
    elseif kind ~= 0 then
      at = kind == 5 and i + 5 or kind == 1 and i + 9
      if not at then
        return ""
      end
    end
    i = at
  end
  return ""
end
