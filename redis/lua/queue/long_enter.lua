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

  -- waits is the answer to a claim of such a weight in slot i, which may be one past the tail, that does not hold.
  local function waits(i, ticket, ttl, n, weight)
    local list = {key, id, 'ok', ticket, 0, ttl, n}
    -- When it would hold if nothing but time passed, or earlier: it need not hear of all that are ahead. An exclusive claim
    -- waits for each one, so also for the last of those near the head. Another one waits until the rest leave it room; if
    -- so many hold that this takes more than are looked at, for the first of all.
    local room, turn, ahead = total - weight, 0, {}
    local near = redis.call('GETRANGE', key, slot(first), slot(math.min(i, first + (room > 0 and COUNTED or NEAR))) - 1)
    for at = 1, #near, stride do
      local ends, delay, state = struct.unpack('>ddB', near, at + ATENDS)
      if state == TOLD then
        ends = ends + delay
      end
      if state ~= EMPTY and room > 0 then
        ahead[#ahead + 1] = {ends, (struct.unpack('>I4', near, at + ATWEIGHT))}
      elseif state ~= EMPTY then
        turn = math.max(turn, ends)
      end
    end
    if room > 0 then
      turn = due
      table.sort(ahead, function(a, b) return a[1] > b[1] end)
      for _, e in ipairs(ahead) do
        room = room - e[2]
        if room < 0 then
          turn = e[1]
          break
        end
      end
    end
    local head = {0, struct.unpack(CLAIM, near)}
    local texts = head[TEXTS] + head[ID] + head[CLIENT] + head[OWNER]
    list[8], list[9], list[10], list[11] = turn - now, head[TICKET], head[WEIGHT], first < waiter and 1 or 0
    list[12], list[13], list[14] = head[STATE] == LEFT and 1 or 0, now - head[SINCE], head[ENDS] - now
    list[15] = string.sub(near, texts, texts + head[RECORD] - 1)
    return list
  end

  local i, e = find()
  local ttl, wait, flags = tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[11]
  if i and now < e[ENDS] and e[STATE] ~= LEFT then
    prolong(i, e, ttl, wait)
    if i < waiter then
      return {key, id, 'ok', e[TICKET], 1, e[ENDS] - now, ahead(i)}
    end
    return waits(i, e[TICKET], e[ENDS] - now, ahead(i), e[WEIGHT])
  end
  local texts, weight = id .. ARGV[2] .. ARGV[3] .. ARGV[4], tonumber(ARGV[5])
  if not i and e and ARGV[10] == '0' and tonumber(ARGV[6]) == total and 2 * slots < size and CLAIMSIZE + #texts <= stride
    and not (ARGV[3] ~= '' and string.find(flags, 'r', 1, true)) then
    local holds = waiter == slots and weight <= free
    if not holds and string.find(flags, 't', 1, true) then
      return waits(slots, 0, 0, live, weight)
    end
    local delay, ends, state = tonumber(ARGV[9]), now + wait, WAITS
    local gone = ends
    if holds then
      ends, state = now + ttl, TOLD
      gone = ends + delay
    end
    newest = math.max(newest + 1, now)
    extend(gone)
    local mine = slots
    redis.call('SETRANGE', key, slot(mine), struct.pack(CLAIM, newest, weight, now - MODERN, ends, delay, state,
      #id, #ARGV[2], #ARGV[3], #ARGV[4]) .. texts)
    redis.call('SETRANGE', key, e, struct.pack('>I4', mine + 1))
    slots, live, due = slots + 1, live + 1, math.min(due, gone)
    if holds then
      waiter, free = slots, free - weight
      save()
      return {key, id, 'ok', newest, 1, ttl, live - 1}
    end
    save()
    return waits(mine, newest, wait, live - 1, weight)
  end
end
