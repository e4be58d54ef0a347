-- ARGV: id, ttl in milliseconds, the record that the claim has and another, both with their versions; the version of the other,
-- and that without its version. The answer to one that has a third record is 2, with that.
if mine ~= id or gone then
  return {key, id, 'gone'}
end
local ttl = math.max(left - delay, tonumber(ARGV[2]))
if record ~= ARGV[4] then
  if record ~= ARGV[3] then
    return {key, id, 'ok', 0, 2, record}
  end
  redis.call('SET', key, table.concat({'stile1', id, ticket, client .. '\t' .. ARGV[5], owner, delay, ARGV[6]}, '\n'), 'PX', ttl + delay)
else
  redis.call('PEXPIRE', key, ttl + delay)
end
return {key, id, 'ok', ttl * 1000}
