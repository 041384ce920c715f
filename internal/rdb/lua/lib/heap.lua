-- A heap orders lanes by the field vt, least first. heap[0] is their number.
local function push(heap, lane)
  local i = heap[0] + 1
  heap[0] = i
  while i > 1 do
    local parent = math.floor(i / 2)
    if heap[parent].vt <= lane.vt then
      break
    end
    heap[i], i = heap[parent], parent
  end
  heap[i] = lane
end

-- pop(heap) removes the first lane and returns it.
local function pop(heap)
  local size = heap[0] - 1
  local top, last, i = heap[1], heap[size + 1], 1
  heap[0], heap[size + 1] = size, nil
  while 2 * i <= size do
    local child = 2 * i
    if child < size and heap[child + 1].vt < heap[child].vt then
      child = child + 1
    end
    if heap[child].vt >= last.vt then
      break
    end
    heap[i], i = heap[child], child
  end
  if size > 0 then
    heap[i] = last
  end
  return top
end
