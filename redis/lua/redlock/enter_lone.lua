-- quorum.Member.Vote on a name that nobody has, before the rest is set up: the usual case, and the quick one. Tickets of
-- the same length are compared as texts. One that is well ahead of this server's clock is kept for longer, by the rest.
local least = ARGV[11]
if ARGV[2] == '0' then
  local t, last = redis.call('TIME'), redis.call('GET', KEYS[2])
  local now = t[1] .. string.sub('00000' .. t[2], -6)
  if #now == #least and now <= least and string.sub(least, 1, -7) - t[1] < 60
    and (not last or #last == #least and last < least)
    and redis.call('SET', KEYS[1], ARGV[4] .. least .. ARGV[5], 'NX', 'PX', ARGV[3]) then
    redis.call('SET', KEYS[2], least, 'PX', 3660000)
    return ARGV[1] .. '\n' .. least
  end
end
