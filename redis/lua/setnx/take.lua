redis.call('SET', key, table.concat({'stile1', id, ticket, ARGV[5], ARGV[6], ARGV[4], ARGV[7]}, '\n'), 'PX', span)
return {key, id, 'ok', ticket, 1, ttl * 1000}
