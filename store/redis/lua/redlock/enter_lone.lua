-- quorum.Member.Vote on a name that nobody has, before the rest is set up: the usual case, and the quick one. The claim gets the
-- ticket that its client asks for, if the last one is known and lower. Tickets of the same length are compared as texts. The last one
-- is forgotten an hour after this server's clock has passed it, so without one the ticket is not below the clock.
local least = ARGV[11]
if ARGV[2] == '0' and redis.call('SET', KEYS[1], ARGV[4] .. least .. ARGV[5], 'NX', 'PX', ARGV[3]) then
  local last = redis.pcall('SET', KEYS[2], least, 'PXAT', string.format('%.0f', (tonumber(string.sub(least, 1, -4)) or 0) + 3600000), 'GET')
  if last and #last == #least and last < least then
    return ARGV[1] .. '\n' .. least
  end
  if type(last) == 'table' then -- the server is older than 6.2, or somebody's data is there
    last = redis.pcall('GET', KEYS[2])
    if type(last) == 'table' then
      redis.call('DEL', KEYS[1])
      return last
    end
  end
  local t = redis.call('TIME')
  local now = t[1] * 1000000 + t[2]
  local given = math.max(now, (tonumber(last or 0) or 0) + 1, tonumber(least))
  local ticket = string.format('%.0f', given)
  redis.call('SET', KEYS[2], ticket, 'PX', string.format('%.0f', math.max(0, given - now) / 1000 + 3600000))
  if ticket ~= least then
    redis.call('SET', KEYS[1], ARGV[4] .. ticket .. ARGV[5], 'PX', ARGV[3])
  end
  return ARGV[1] .. '\n' .. ticket
end
