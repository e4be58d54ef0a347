-- driver.Leave of the only claim, before the rest is set up: the usual case, and the quick one.
if raw and ARGV[2] == '0' and #raw > HEADSIZE then
  local _, _, last, at = struct.unpack(HEAD, raw)
  local _, _, _, ends, _, state, first, _, _, _, tail = struct.unpack(CLAIM, raw, at)
  if tail > #raw and first == id and now < ends and state ~= LEFT and last < now then
    redis.call('DEL', key)
    return {key, id, 'ok'}
  end
end
