-- driver.Leave of a lock that stands as it was set, and is neither kept nor has a lock-delay, before the rest is set up:
-- the usual case.
if ARGV[2] == '0' and ARGV[3] == '0' then
  local value = redis.pcall('GET', KEYS[1])
  local head = 'stile1\n' .. ARGV[1] .. '\n' .. ARGV[4] .. '\n' .. ARGV[5] .. '\n' .. ARGV[6] .. '\n0\n'
  if type(value) == 'string' and ARGV[4] ~= '0' and string.sub(value, 1, #head) == head then
    redis.call('DEL', KEYS[1])
    return {KEYS[1], ARGV[1], 'ok'}
  end
end
