-- driver.Enter in a long queue.
if long and live >= LEAST then
  local i, e
  FIND
  local lives = i and now < e[ENDS] and e[STATE] ~= LEFT
  if e and not lives and (i or ARGV[10]) then
    return {key, id, 'gone'}
  end
  local ttl, wait, flags = tonumber(ARGV[2]), tonumber(ARGV[8]), ARGV[9]
  local at, ticket, left, ahead -- of a claim that does not hold: its slot, which may be one past the tail, and what is told of it
  if lives then
    PROLONG
    -- The claims before the slot are counted. If some slots are empty, and it is far from the head, that may come out too large.
    ahead = i - first
    if slots - first == live then
      -- no slot is empty
    elseif ahead > COUNTED then
      ahead = math.min(ahead, live - 1)
    else
      local all, n = redis.call('GETRANGE', key, base + first * stride, base + i * stride - 1), ahead
      ahead = 0
      for from = ATSTATE + 1, n * stride, stride do
        if string.byte(all, from) ~= EMPTY then
          ahead = ahead + 1
        end
      end
    end
    if i < waiter then
      return {key, id, 'ok', e[TICKET], 1, e[ENDS] - now, ahead}
    end
    at, ticket, left = i, e[TICKET], e[ENDS] - now
  elseif e and struct.unpack('>I4', ARGV[4], #MARK + 1) == total and 2 * slots < size
    and BEFORESIZES + #ARGV[7] <= stride and not string.find(flags, 'r', 1, true) then
    local weight = struct.unpack('>I4', ARGV[5])
    local holds = waiter == slots and weight <= free
    if not holds and string.find(flags, 't', 1, true) then
      at, ticket, left, ahead = slots, 0, 0, live
    else
      local delay, ends, state = struct.unpack('>d', ARGV[6]), now + wait, WAITS
      local gone = ends
      if holds then
        ends, state = now + ttl, TOLD
        gone = ends + delay
      end
      newest = math.max(newest + 1, now)
      extend(gone)
      redis.call('SETRANGE', key, base + slots * stride,
        struct.pack(PARTS, newest, ARGV[5], now - MODERN, ends, ARGV[6], state, ARGV[7]))
      redis.call('SETRANGE', key, e, struct.pack('>I4', slots + 1))
      slots, live, due = slots + 1, live + 1, math.min(due, gone)
      if holds then
        waiter, free = slots, free - weight
      end
      save()
      if holds then
        return {key, id, 'ok', newest, 1, ttl, live - 1}
      end
      at, ticket, left, ahead = slots - 1, newest, wait, live - 1
    end
  end
  if at then
    -- It is to ask again when a claim has ended: the first that waits notices the end of each that holds, every other that of the
    -- one before it, which mostly is in the slot before it. Where more slots than are looked at hold, or are empty, it is the first
    -- of all ends.
    local alarm = math.huge
    if at > waiter then
      local from = base + (at - 1) * stride
      local ends, _, state = struct.unpack('>ddB', redis.call('GETRANGE', key, from + ATENDS, from + ATSTATE))
      if state ~= EMPTY then
        alarm = ends
      end
    end
    local from = at > waiter and math.max(waiter, at - NEAR) or first
    if alarm == math.huge and at - from <= COUNTED then
      local list = redis.call('GETRANGE', key, base + from * stride, base + at * stride - 1)
      for from = #list - stride + 1, 1, -stride do
        local ends, delay, state = struct.unpack('>ddB', list, from + ATENDS)
        if state ~= EMPTY then
          alarm = math.min(alarm, state == TOLD and ends + delay or ends)
          if at > waiter then
            break
          end
        end
      end
    end
    if alarm == math.huge then
      alarm = due
    end
    local near = redis.call('GETRANGE', key, base + first * stride, base + (first + 1) * stride - 1)
    local head = {0, struct.unpack(CLAIM, near)}
    local texts = head[TEXTS] + head[ID] + head[CLIENT] + head[OWNER]
    return {key, id, 'ok', ticket, 0, left, ahead, alarm - now, head[TICKET], head[WEIGHT], first < waiter and 1 or 0,
      head[STATE] == LEFT and 1 or 0, now - head[SINCE], head[ENDS] - now, string.sub(near, texts, texts + head[RECORD] - 1)}
  end
end
