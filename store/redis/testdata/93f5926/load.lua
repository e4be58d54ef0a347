-- Every script begins here. It works on one name, whose queue is the string at KEYS[1]: HEAD (mark, capacity, last ticket),
-- then for each claim, in ticket order, CLAIM (the last four numbers are sizes) and its texts id, client, owner, record.
-- Words in capitals are constants, which script.go puts in.
-- Every answer begins with the key and the id in ARGV[1], so that the caller sees whose it is. Times are in microseconds.
-- A script writes once, after everything that can fail; so an error means that nothing was changed.
local key, id = KEYS[1], ARGV[1]
local raw = redis.pcall('GET', key)
if type(raw) == 'table' then
  if string.sub(raw.err, 1, 9) == 'WRONGTYPE' then
    return {key, id, 'foreign', redis.call('TYPE', key).ok}
  end
  return raw
end
if raw and (string.sub(raw, 1, 6) ~= MARK or #raw < HEADSIZE) then
  return {key, id, 'foreign', 'string'}
end
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
