-- The value of a key that stile holds is six lines: stile1, or stile1-left once the lock was released and is kept; id;
-- ticket; client; owner; lock-delay in milliseconds; and after them the record. Any other value is another client's.
local key, id = KEYS[1], ARGV[1]
local value = redis.pcall('GET', key)
if type(value) == 'table' then
  if string.sub(value.err, 1, 9) == 'WRONGTYPE' then
    return {key, id, 'foreign', redis.call('TYPE', key).ok}
  end
  return value
end
local mine, released, ticket, client, owner, delay, record = false, false, '0', '', '', 0, ''
if value then
  local first, last, mark, a, b, c, d, e = string.find(value,
    '^stile1([-a-z]*)\n([^\n]*)\n(%d+)\n([^\n]*)\n([^\n]*)\n(%d+)\n')
  if first then
    mine, released, ticket, client, owner, delay, record = a, mark ~= '', b, c, d, tonumber(e), string.sub(value, last + 1)
  end
end
local left = value and redis.call('PTTL', key) or 0
-- Released, or only its lock-delay keeps others out. A key that somebody made last for ever is still its holder's, who
-- gives it an end again.
local gone = released or left >= 0 and left <= delay

-- What stands in the way, as a listing shows it.
local function standing()
  local since = 0
  local rest, kept = (left - delay) * 1000, released and 1 or 0
  if mine then
    local t = redis.call('TIME')
    since = t[1] * 1000000 + t[2] - ticket
  end
  if left < 0 then
    rest = 0
  end
  local says = record
  if not mine and left < 0 then
    says = 'its key never expires'
  end
  return ticket, '2147483647', 1, kept, string.format('%.0f', math.max(0, since)), string.format('%.0f', rest), says
end
