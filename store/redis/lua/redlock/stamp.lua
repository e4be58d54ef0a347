-- ARGV[11] is the least ticket that the client asks for. KEYS[2] has the last that the name had, for longer than this
-- server's clock takes to pass it, so that later ones are larger.
local t = redis.call('TIME')
local now, last = t[1] * 1000000 + t[2], tonumber(redis.call('GET', KEYS[2]) or 0) or 0
local given = math.max(now, last + 1, tonumber(ARGV[11]))
ticket = string.format('%.0f', given)
redis.call('SET', KEYS[2], ticket, 'PX', string.format('%.0f', math.max(0, given - now) / 1000 + 3600000))
