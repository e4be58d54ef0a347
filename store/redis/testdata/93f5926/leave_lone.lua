-- driver.Leave of the only claim, before the rest is set up: the usual case, and the quick one.
if raw and ARGV[2] == '0' and #raw > HEADSIZE then
  local _, _, last, at = struct.unpack(HEAD, raw)
  local _, _, _, ends, _, state, a, b, c, d, texts = struct.unpack(CLAIM, raw, at)
  if texts + a + b + c + d > #raw and string.sub(raw, texts, texts + a - 1) == id
    and now < ends and state ~= LEFT and last < now then
    redis.call('DEL', key)
    return {key, id, 'ok'}
  end
end
