-- varint(text, i) returns the number that is encoded at position i of a protobuf message, and the
-- position behind it; nil beyond the end.
local function varint(text, i)
  local value, factor = 0, 1
  repeat
    local byte = string.byte(text, i)
    if not byte then
      return nil
    end
    value, factor, i = value + byte % 128 * factor, factor * 128, i + 1
  until byte < 128
  return value, i
end
