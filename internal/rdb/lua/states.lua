-- Returns the states of tasks.
--
-- KEYS[1..] the task's hash, for each task
-- RETURN    for each task: its state, "" = there is no such task
-- BOUND     1,000 tasks
-- include: fields

local states = {}
for i = 1, #KEYS do
  states[i] = fields(KEYS[i], "state")[1] or ""
end
return states
