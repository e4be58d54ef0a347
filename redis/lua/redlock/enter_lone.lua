-- quorum.Member.Vote on a name that nobody has, before the rest is set up: the usual case, and the quick one.
if (ARGV[2] == '0' or ARGV[2] == '1') and not redis.pcall('GET', KEYS[1]) then
  local t = redis.call('TIME')
  local now, last = t[1] * 1000000 + t[2], tonumber(redis.call('GET', KEYS[2]) or 0) or 0
  local given = math.max(now, last + 1, tonumber(ARGV[9]))
  local ticket = string.format('%.0f', given)
  redis.call('SET', KEYS[2], ticket, 'PX', string.format('%.0f', math.max(0, given - now) / 1000 + 3600000))
  redis.call('SET', KEYS[1], 'stile1\n' .. ARGV[1] .. '\n' .. ticket .. '\n' .. ARGV[5] .. '\n' .. ARGV[6] .. '\n' .. ARGV[4] .. '\n' .. ARGV[7],
    'PX', ARGV[3] + ARGV[4])
  return {KEYS[1], ARGV[1], 'ok', ticket, 1, ARGV[3] * 1000}
end
