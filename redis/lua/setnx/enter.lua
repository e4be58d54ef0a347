-- ARGV: id, ticket that the claim has, ttl and lock-delay in milliseconds, client, owner, record, reclaim
local had, ttl, span = ARGV[2], tonumber(ARGV[3]), ARGV[3] + ARGV[4]
if mine == id then
  if gone then
    return {key, id, 'gone'}
  end
  if left - delay < ttl then
    redis.call('PEXPIRE', key, ttl + delay)
    left = ttl + delay
  end
  return {key, id, 'ok', ticket, 1, (left - delay) * 1000}
end
if had ~= '0' and had ~= '1' then
  return {key, id, 'gone'}
end
if value and not (ARGV[8] == 'r' and mine and owner ~= '' and owner == ARGV[6] and client ~= ARGV[5]) then
  return {key, id, 'ok', 0, 0, left, mine and 'ours' or 'foreign', standing()}
end
