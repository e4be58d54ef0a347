-- driver.Enter on a name that nobody uses, before the rest is set up: the usual case, and the quick one.
if not raw and ARGV[10] == '0' then
  local ttl, delay = tonumber(ARGV[7]), tonumber(ARGV[9])
  redis.call('SET', key, struct.pack('>c6I4ddI4dddBI2c0I2c0I2c0I2c0', MARK, ARGV[6], now,
    now, ARGV[5], now, now + ttl, delay, TOLD,
    #id, id, #ARGV[2], ARGV[2], #ARGV[3], ARGV[3], #ARGV[4], ARGV[4]), 'PX', math.ceil((ttl + delay) / 1000) + 1)
  return {key, id, 'ok', now, 1, ttl, 0}
end
