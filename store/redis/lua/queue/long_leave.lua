-- driver.Leave in a long queue that stays long, and not to be kept. Mostly it is the one at the head that leaves, and the one behind
-- it that holds then: they are read at once, before anything is looked for.
if long and live > LEAST then
  local i, e, near
  if first + 1 < slots then
    local from = base + first * stride
    near = redis.call('GETRANGE', key, from, from + 2 * stride - 1)
    if string.byte(near, ATSTATE + 1) ~= EMPTY and string.sub(near, CLAIMSIZE + 1, CLAIMSIZE + #id) == id then
      e = {from, struct.unpack(CLAIM, near)}
      i = e[ID] == #id and first or nil
    end
  end
  if not i then
    FIND
  end
  if e and (not i or now >= e[ENDS] or e[STATE] == LEFT) then
    return {key, id, 'gone'}
  end
  if i and (ARGV[2] == '0' or i >= waiter) then
    redis.call('SETRANGE', key, e[FROM] + ATSTATE, string.char(EMPTY))
    live = live - 1
    local behind
    if i == first then
      first, behind = i + 1, near and string.sub(near, stride + 1)
    end
    if i < waiter then
      free = free + e[WEIGHT]
    end
    settle(behind)
    return {key, id, 'ok'}
  end
end
