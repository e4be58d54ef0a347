-- driver.Leave of a lock that stands as it was set, and is neither kept nor has a lock-delay, before the rest is set up:
-- the usual case. ARGV[3] is what its value begins with.
if ARGV[2] == '0' and ARGV[3] ~= '' then
  local value = redis.pcall('GET', KEYS[1])
  if type(value) == 'string' and string.sub(value, 1, #ARGV[3]) == ARGV[3] then
    redis.call('DEL', KEYS[1])
    return ARGV[1]
  end
end
