-- ARGV: id, ttl in milliseconds; to amend the claim too, the record that it has, and another. The answer to one that has a
-- third record is 2, with that.
if mine ~= id or gone then
  return {key, id, 'gone'}
end
local ttl, from, to = math.max(left - delay, tonumber(ARGV[2])), ARGV[3], ARGV[4]
if to and record ~= to then
  if record ~= from then
    return {key, id, 'ok', 0, 2, record}
  end
  redis.call('SET', key, table.concat({'stile1', id, ticket, client, owner, delay, to}, '\n'), 'PX', ttl + delay)
else
  redis.call('PEXPIRE', key, ttl + delay)
end
return {key, id, 'ok', ttl * 1000}
