-- driver.Enter on a key that is not there, before the rest is set up: the usual case, and the quick one. A ticket is the
-- server's time in microseconds, put together of the texts that TIME answers with.
if ARGV[2] == '0' then
  local t = redis.call('TIME')
  local ticket = t[1] .. string.sub('00000' .. t[2], -6)
  if redis.call('SET', KEYS[1], ARGV[4] .. ticket .. ARGV[5], 'NX', 'PX', ARGV[3]) then
    return ARGV[1] .. '\n' .. ticket
  end
end
