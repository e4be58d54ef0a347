-- driver.Enter on a name that nobody uses, before the rest is set up: the usual case, and the quick one.
if not raw and ARGV[10] == '0' then
  local ttl, delay = tonumber(ARGV[7]), tonumber(ARGV[9])
  local client, owner, record = ARGV[2], ARGV[3], ARGV[4]
  redis.call('SET', key, struct.pack(HEADCLAIM, MARK, ARGV[6], now,
    now, ARGV[5], now, now + ttl, delay, TOLD, #id, #client, #owner, #record) .. id .. client .. owner .. record,
    'PX', math.ceil((ttl + delay) / 1000) + 1)
  return {key, id, 'ok', now, 1, ttl, 0}
end
