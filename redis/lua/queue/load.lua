-- Every script begins here, enter after its quick part. It works on one name, whose queue is the string at KEYS[1]. A short
-- queue is HEAD (mark, capacity, last ticket), then for each claim, in ticket order, CLAIM (the last four numbers are sizes)
-- and its texts id, client, owner, record. A long one is told of in long.lua.
-- Words in capitals are constants, which script.go puts in.
-- Every answer begins with the key and the id in ARGV[1], or is a text whose first line is the id, so that the caller sees
-- whose it is. Times are in microseconds.
-- What a script writes, it writes after everything that can fail; so an error means that nothing was changed.
local key, id = KEYS[1], ARGV[1]
local raw = redis.pcall(READ)
if type(raw) == 'table' then
  if string.sub(raw.err, 1, 9) == 'WRONGTYPE' then
    return {key, id, 'foreign', redis.call('TYPE', key).ok}
  end
  return raw
end
local long = false
if raw and raw ~= '' then
  long = string.sub(raw, 1, 6) == LONGMARK
  if not long and string.sub(raw, 1, 6) ~= MARK or #raw < HEADSIZE or long and #raw < LONGHEADSIZE then
    return {key, id, 'foreign', 'string'}
  end
  if long then
    local _, _, _, _, size, stride, slots, first, waiter, live = struct.unpack(LONGHEAD, raw)
    if size < 1 or stride <= CLAIMSIZE or stride > WIDEST or first > waiter or waiter > slots or live > slots then
      return {key, id, 'foreign', 'string'}
    end
  end
end
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
