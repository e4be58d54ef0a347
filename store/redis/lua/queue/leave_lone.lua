-- driver.Leave of the only claim, before the rest is set up: the usual case, and the quick one. ARGV[3] is what is stored of the
-- claim after its state, with the id, so that a value that ends with it, and has room for no more, is a queue of that claim. What
-- fills the page that was read may go on behind it.
if ARGV[2] == '0' and type(raw) == 'string' and #raw < PAGE and #raw == LONEREST - 1 + #ARGV[3] and string.sub(raw, LONEREST) == ARGV[3] then
  local clock = redis.call('TIME')
  local now = clock[1] * 1000000 + clock[2]
  local last, _, _, _, ends, _, state = struct.unpack(LONE, raw, LONEFROM)
  if last < now and now < ends and state ~= LEFT then
    redis.call('DEL', key)
    return id
  end
end
