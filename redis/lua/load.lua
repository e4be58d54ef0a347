-- Every script begins here, after the line that says how clients are told: PUBLISH and SHARDED. It works on one name, whose
-- queue is the string at KEYS[1]: HEAD (mark, capacity, last ticket), then a CLAIM for each, in ticket order.
-- Every answer begins with the key and the id in ARGV[1], so that the caller sees whose it is. Times are in microseconds.
-- A script writes once, after everything that can fail; so an error means that nothing was changed.
local MARK = 'stile1'
local HEAD, HEADSIZE = '>c6I4d', 18
local CLAIM = '>dI4dddBI2c0I2c0I2c0I2c0'
local TICKET, WEIGHT, SINCE, ENDS, DELAY, STATE, ID, CLIENT, OWNER, RECORD = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local WAITS, TOLD, LEFT = 0, 1, 2 -- told that it holds; released, and kept until it ends

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
