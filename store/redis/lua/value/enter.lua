-- ARGV: id, ticket that the claim has, or 0 or, if it waits, 1, how long the key is to stand, what the value has before
-- and after the ticket, ttl and lock-delay in milliseconds, client, owner, reclaim
local had, span, ttl = ARGV[2], ARGV[3], tonumber(ARGV[6])
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
if value and not (ARGV[10] == 'r' and mine and not released and owner ~= '' and owner == ARGV[9] and client ~= ARGV[8]) then
  return {key, id, 'ok', 0, 0, left, mine and 'ours' or 'foreign', standing()}
end
