-- settings(text, default) reads the settings of a partition: tokens name=value, separated by
-- spaces. concurrency: 0 = unlimited; interval: microseconds between two starts, 0 = no rate;
-- burst; weight; paused.
local function settings(text, default)
  local set = { concurrency = 0, interval = 0, burst = 1, weight = 1, paused = false }
  for name, value in pairs(default or {}) do
    set[name] = value
  end
  for name, value in string.gmatch(text, "(%l+)=(%S+)") do
    set[name] = tonumber(value) or value
  end
  set.paused = set.paused == 1
  return set
end
