-- What is no queue is refused, and left as it is.
if type(raw) == 'table' then
  if string.sub(raw.err, 1, 9) == 'WRONGTYPE' then
    return {key, id, 'foreign', redis.call('TYPE', key).ok}
  end
  return raw
end
-- Of a long queue, what its head says; long.lua tells of that.
local long, total, newest, due, size, stride, slots, first, waiter, live, free, till = false
if raw and raw ~= '' then
  long = string.sub(raw, 1, 6) == LONGMARK
  if not long and string.sub(raw, 1, 6) ~= MARK or #raw < HEADSIZE or long and #raw < LONGHEADSIZE then
    return {key, id, 'foreign', 'string'}
  end
  if long then
    local _
    _, total, newest, due, size, stride, slots, first, waiter, live, free, till = struct.unpack(LONGHEAD, raw)
    if size < 1 or stride <= CLAIMSIZE or stride > WIDEST or first > waiter or waiter > slots or live > slots then
      return {key, id, 'foreign', 'string'}
    end
  end
end
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
