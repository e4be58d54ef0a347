local t = redis.call('TIME')
ticket = string.format('%.0f', t[1] * 1000000 + t[2])
