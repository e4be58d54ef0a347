-- ARGV: id, ttl in milliseconds
if mine ~= id or gone then
  return {key, id, 'gone'}
end
local ttl = math.max(left - delay, tonumber(ARGV[2]))
redis.call('PEXPIRE', key, ttl + delay)
return {key, id, 'ok', ttl * 1000}
