-- The slot of the claim with the id, and the claim with its first texts; or no slot, and the free entry of the index.
local entry = tonumber(string.sub(redis.sha1hex(id), 1, 7), 16) % size
for _ = 1, size do
  local at = LONGHEADSIZE + 4 * entry
  if at + 4 <= #raw then -- it was read with the head
    i = struct.unpack('>I4', raw, at + 1) - 1
  else
    i = struct.unpack('>I4', redis.call('GETRANGE', key, at, at + 3)) - 1
  end
  if i < 0 then
    i, e = nil, at
    break
  end
  local from = base + i * stride
  local text = redis.call('GETRANGE', key, from, from + CLAIMSIZE + #id - 1)
  e = {from, struct.unpack(CLAIM, text)}
  if e[STATE] ~= EMPTY and e[ID] == #id and string.sub(text, CLAIMSIZE + 1) == id then
    break
  end
  i, e = nil, nil
  entry = (entry + 1) % size
end
