-- Leaves the marker where tasks wait in pending, so that another server is woken.
--
-- KEYS[1]  pending
-- KEYS[2]  marker
-- RETURN   1 if tasks wait, else 0
-- BOUND    constant
-- include: mark

if redis.call("EXISTS", KEYS[1]) == 0 then
  return 0
end
mark(KEYS[2])
return 1
