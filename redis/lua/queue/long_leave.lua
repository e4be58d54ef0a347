-- driver.Leave in a long queue that stays long, and not to be kept.
if long and live > LEAST then
  local i, e = find()
  if e and (not i or now >= e[ENDS] or e[STATE] == LEFT) then
    return {key, id, 'gone'}
  end
  if i and (ARGV[2] == '0' or i >= waiter) then
    redis.call('SETRANGE', key, e[FROM] + ATSTATE, string.char(EMPTY))
    live = live - 1
    if i < waiter then
      free = free + e[WEIGHT]
    end
    settle()
    return {key, id, 'ok'}
  end
end
