-- driver.Enter in a long queue.
if long and live >= LEAST then
  -- ahead counts the claims before a slot. If some slots are empty, and it is far from the head, it may come out too large.
  local function ahead(i)
    local n = i - first
    if slots - first == live then
      return n
    elseif n > COUNTED then
      return math.min(n, live - 1)
    end
    local all, count = redis.call('GETRANGE', key, slot(first), slot(i) - 1), 0
    for at = ATSTATE + 1, n * stride, stride do
      if string.byte(all, at) ~= EMPTY then
        count = count + 1
      end
    end
    return count
  end

  -- alarm is when the claim in slot i, which waits, is to ask again: the first that waits notices the end of each that
  -- holds, every other that of the one before it. Where more slots than are looked at hold, or are empty, it is the first
  -- of all ends.
  local function alarm(i)
    local from, least = i > waiter and math.max(waiter, i - NEAR) or first, math.huge
    if i - from > COUNTED then
      return due
    end
    local list = redis.call('GETRANGE', key, slot(from), slot(i) - 1)
    for at = #list - stride + 1, 1, -stride do
      local ends, delay, state = struct.unpack('>ddB', list, at + ATENDS)
      if state ~= EMPTY then
        least = math.min(least, state == TOLD and ends + delay or ends)
        if i > waiter then
          break
        end
      end
    end
    return least < math.huge and least or due
  end

  -- waits is the answer to a claim in slot i, which may be one past the tail, that does not hold.
  local function waits(i, ticket, ttl, n)
    local list = {key, id, 'ok', ticket, 0, ttl, n}
    local near = redis.call('GETRANGE', key, slot(first), slot(first + 1) - 1)
    local head = {0, struct.unpack(CLAIM, near)}
    local texts = head[TEXTS] + head[ID] + head[CLIENT] + head[OWNER]
    list[8], list[9], list[10], list[11] = alarm(i) - now, head[TICKET], head[WEIGHT], first < waiter and 1 or 0
    list[12], list[13], list[14] = head[STATE] == LEFT and 1 or 0, now - head[SINCE], head[ENDS] - now
    list[15] = string.sub(near, texts, texts + head[RECORD] - 1)
    return list
  end

  local i, e = find()
  local ttl, wait, flags = tonumber(ARGV[2]), tonumber(ARGV[8]), ARGV[9]
  if i and now < e[ENDS] and e[STATE] ~= LEFT then
    prolong(i, e, ttl, wait)
    if i < waiter then
      return {key, id, 'ok', e[TICKET], 1, e[ENDS] - now, ahead(i)}
    end
    return waits(i, e[TICKET], e[ENDS] - now, ahead(i))
  end
  if not i and e and not ARGV[10] and struct.unpack('>I4', ARGV[4], #MARK + 1) == total and 2 * slots < size
    and BEFORESIZES + #ARGV[7] <= stride and not string.find(flags, 'r', 1, true) then
    local weight = struct.unpack('>I4', ARGV[5])
    local holds = waiter == slots and weight <= free
    if not holds and string.find(flags, 't', 1, true) then
      return waits(slots, 0, 0, live)
    end
    local delay, ends, state = struct.unpack('>d', ARGV[6]), now + wait, WAITS
    local gone = ends
    if holds then
      ends, state = now + ttl, TOLD
      gone = ends + delay
    end
    newest = math.max(newest + 1, now)
    extend(gone)
    local mine = slots
    redis.call('SETRANGE', key, slot(mine), struct.pack(PARTS, newest, ARGV[5], now - MODERN, ends, ARGV[6], state, ARGV[7]))
    redis.call('SETRANGE', key, e, struct.pack('>I4', mine + 1))
    slots, live, due = slots + 1, live + 1, math.min(due, gone)
    if holds then
      waiter, free = slots, free - weight
      save()
      return {key, id, 'ok', newest, 1, ttl, live - 1}
    end
    save()
    return waits(mine, newest, wait, live - 1)
  end
end
