-- ARGV: id, ticket
if mine ~= id or gone then
  return {key, id, 'gone'}
end
local t = redis.call('TIME')
local now, last = t[1] * 1000000 + t[2], tonumber(redis.call('GET', KEYS[2]) or 0) or 0
local given = math.max(last, tonumber(ARGV[2]))
redis.call('SET', KEYS[2], string.format('%.0f', given), 'PX',
  string.format('%.0f', math.max(0, given - now) / 1000 + 3600000))
if ticket ~= ARGV[2] then
  value = table.concat({'stile1', id, ARGV[2], client, owner, delay, record}, '\n')
  if left < 0 then
    redis.call('SET', key, value)
  else
    redis.call('SET', key, value, 'PX', math.max(1, left))
  end
end
return {key, id, 'ok'}
