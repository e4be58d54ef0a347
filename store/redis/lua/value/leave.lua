-- ARGV: id, how long the lock is kept, what the value begins with if the lock has no delay
if mine ~= id or gone then
  return {key, id, 'gone'}
end
if ARGV[2] == '0' then
  redis.call('DEL', key)
else
  redis.call('SET', key, table.concat({'stile1-left', id, ticket, client, owner, 0, record}, '\n'), 'PX', ARGV[2])
end
return {key, id, 'ok'}
