redis.call('SET', key, ARGV[4] .. ticket .. ARGV[5], 'PX', span)
return {key, id, 'ok', ticket, 1, ttl * 1000}
