-- Reads the messages of tasks that are staged for aggregation.
--
-- KEYS[1..]  the set, for each set
-- ARGV[1]    prefix of the task keys
-- ARGV[2]    bytes of messages after which the script stops
-- ARGV[3..]  for each set: index of the first task, number of tasks to read
-- RETURN     for each set: {id, msg, id, msg, …}; msg is false if no such task is aggregating;
--            fewer if the bytes are used up
-- BOUND      500 tasks, ARGV[2] bytes and one message
-- include: fields

local reply, bytes = {}, 0
for i = 1, #KEYS do
  local tasks = {}
  if bytes < tonumber(ARGV[2]) then
    local from = tonumber(ARGV[2 * i + 1])
    for _, id in ipairs(redis.call("ZRANGE", KEYS[i], from, from + ARGV[2 * i + 2] - 1)) do
      local f = fields(ARGV[1] .. id, "state", "msg")
      local msg = f[1] == "aggregating" and f[2]
      tasks[#tasks + 1] = id
      tasks[#tasks + 1] = msg or false
      bytes = bytes + (msg and #msg or 0)
      if bytes >= tonumber(ARGV[2]) then
        break
      end
    end
  end
  reply[i] = tasks
end
return reply
