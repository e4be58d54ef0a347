-- driver.Leave in a long queue that stays long, and not to be kept. Each call of a command costs a script about 1 µs, so the slot
-- behind the one that is left is read once for all questions: with that, and with the head and the entries of the index read
-- at once, enter and leave take the server 54 µs, and took 58 (the least of many times, -bench LongQueue).
if long and live > LEAST then
  local i, e = find()
  if e and (not i or now >= e[ENDS] or e[STATE] == LEFT) then
    return {key, id, 'gone'}
  end
  if i and (ARGV[2] == '0' or i >= waiter) then
    redis.call('SETRANGE', key, e[FROM] + ATSTATE, string.char(EMPTY))
    live = live - 1
    if i == first then
      first = i + 1
    end
    if i < waiter then
      free = free + e[WEIGHT]
    end
    settle()
    return {key, id, 'ok'}
  end
end
