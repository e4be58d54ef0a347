-- Guard.Raise. KEYS: the mark. ARGV: the token, for how many milliseconds the mark is kept, or 0.
local mark, token, keep = redis.call('GET', KEYS[1]), ARGV[1], ARGV[2]
if mark and (lower(token, mark) or not string.match(mark, '^[1-9]%d*$')) then
  return {'mark', mark}
end
if keep ~= '0' then
  redis.call('SET', KEYS[1], token, 'PX', keep)
else
  redis.call('SET', KEYS[1], token)
end
return {'ok'}
