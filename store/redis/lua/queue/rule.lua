-- The rule, and what can happen to a queue: driver.Queue, step for step.
--
-- A claim is a table: FROM, where it begins in raw, or false once it differs from that; the fields of CLAIM; and TEXTS, the
-- place of its texts in raw or, for a new claim, the texts. They are taken out of raw only where they are needed.
if long then
  raw = redis.call('GET', key)
end

-- gone tells when a claim no longer counts.
local function gone(e)
  if e[STATE] == TOLD then
    return e[ENDS] + e[DELAY]
  end
  return e[ENDS]
end

local function live(e)
  return now < e[ENDS] and e[STATE] ~= LEFT
end

-- text returns one of a claim's texts.
local function text(e, field)
  local from = e[TEXTS]
  for i = ID, field - 1 do
    from = from + e[i]
  end
  return string.sub(raw, from, from + e[field] - 1)
end

-- The queue, without what has run out; the place of the claim with the id, if it is there; and whether to store it.
local capacity, last, queue, mine, changed = 0, 0, {}, nil, false
if raw then
  local _, at, step
  local till = #raw
  _, capacity, last, at = struct.unpack(HEAD, raw)
  if long then
    local _, _, _, _, entries, bytes, used, from = struct.unpack(LONGHEAD, raw)
    at, step = LONGHEADSIZE + 4 * entries + from * bytes + 1, bytes
    till = LONGHEADSIZE + 4 * entries + used * bytes
  end
  while at <= till do
    local e = {at, struct.unpack(CLAIM, raw, at)}
    at = step and at + step or e[TEXTS] + e[ID] + e[CLIENT] + e[OWNER] + e[RECORD]
    if e[STATE] == EMPTY then
      -- it left the long queue before
    elseif gone(e) > now then
      queue[#queue + 1] = e
      if e[ID] == #id and text(e, ID) == id then
        mine = #queue
      end
    else
      changed = true
    end
  end
end

-- holding is the rule.
local function holding()
  local left = capacity
  for i, e in ipairs(queue) do
    left = left - e[WEIGHT]
    if left < 0 then
      return i - 1
    end
  end
  return #queue
end

-- stay starts the lease of claim i anew. A lease is never made shorter.
local function stay(i, ttl, wait)
  local e = queue[i]
  if i <= holding() then
    e[STATE], wait = TOLD, ttl
  end
  e[ENDS] = math.max(e[ENDS], now + wait)
  e[FROM], changed = false, true
end

-- standing adds claim i, as an observer sees it, to an answer.
local function standing(answer, i, held)
  local e, n = queue[i], #answer
  answer[n + 1], answer[n + 2] = e[TICKET], e[WEIGHT]
  answer[n + 3], answer[n + 4] = i <= held and 1 or 0, e[STATE] == LEFT and 1 or 0
  answer[n + 5], answer[n + 6], answer[n + 7] = now - e[SINCE], e[ENDS] - now, text(e, RECORD)
  return answer
end

-- place tells where claim i stands, or, if i is one past the tail, where it would.
local function place(i)
  local e, held = queue[i], holding()
  local holds = e ~= nil and i <= held
  local answer = {key, id, 'ok', e and e[TICKET] or 0, holds and 1 or 0, e and e[ENDS] - now or 0, i - 1}
  if holds or i == 1 then
    return answer
  end
  -- The first that waits is to notice the end of each that holds, every other that of the one before it.
  local alarm = gone(queue[i - 1])
  if i == held + 1 then
    for n = 1, held do
      alarm = math.min(alarm, gone(queue[n]))
    end
  end
  answer[8] = alarm - now
  return standing(answer, 1, held)
end

-- spread writes the queue in the long form, out of its claims: the index, and slots that are all as long as the widest. The index
-- is so large that as many claims as are there enter twice, and 100 at least, before the queue is written anew.
local function spread(parts, widest, ends)
  local n, size, stride = #queue, 256, math.ceil(widest / 64) * 64
  while size < 6 * n do
    size = 2 * size
  end
  local index, due, free, held = {}, math.huge, capacity, holding()
  for i, e in ipairs(queue) do
    local part = parts[i + 1]
    local entry = tonumber(string.sub(redis.sha1hex(string.sub(part, CLAIMSIZE + 1, CLAIMSIZE + e[ID])), 1, 7), 16) % size
    while index[entry] do
      entry = (entry + 1) % size
    end
    index[entry], due = i, math.min(due, gone(e))
    if i <= held then
      free = free - e[WEIGHT]
    end
    parts[i + 1] = part .. string.rep('\0', stride - #part)
  end
  local head, empty = {struct.pack(LONGHEAD, LONGMARK, capacity, last, due, size, stride, n, 0, held, n, free, ends)}, 0
  for entry = 0, size - 1 do
    if index[entry] then
      head[#head + 1], head[#head + 2], empty = string.rep('\0', 4 * empty), struct.pack('>I4', index[entry]), 0
    else
      empty = empty + 1
    end
  end
  parts[1] = table.concat(head) .. string.rep('\0', 4 * empty)
end

-- commit stores the queue if it has changed, and then tells the clients whose claims hold because of it. The key lives
-- as long as its last claim, and no shorter than until the clock has passed the last ticket, so that tickets rise.
--
-- A queue of some claims is stored in the long form, if all of them are of clients that know that form.
local function commit()
  if not changed then
    return
  end
  local woken, held = {}, holding()
  for i = 1, held do
    local e = queue[i]
    if e[STATE] == WAITS and live(e) then
      e[STATE], e[FROM] = TOLD, false
      woken[#woken + 1] = e
    end
  end
  local ends, parts = last, {struct.pack(HEAD, MARK, capacity, last)}
  local known, widest = #queue >= (long and LEAST or LONG), 0
  for i, e in ipairs(queue) do
    ends = math.max(ends, gone(e))
    local texts = e[TEXTS]
    if type(texts) == 'number' then
      texts = string.sub(raw, e[FROM] or texts, texts + e[ID] + e[CLIENT] + e[OWNER] + e[RECORD] - 1)
    end
    if not e[FROM] then
      texts = struct.pack(CLAIM, unpack(e, TICKET, RECORD)) .. texts
    end
    parts[i + 1] = texts
    known, widest = known and e[SINCE] % 1 ~= 0, math.max(widest, #texts)
  end
  if known and widest <= WIDEST then
    spread(parts, widest, ends)
  end
  if ends < now then
    redis.call('DEL', key)
  else
    redis.call('SET', key, table.concat(parts), 'PX', math.ceil((ends - now) / 1000) + 1)
  end
  for _, e in ipairs(woken) do
    tell(text(e, CLIENT), e[TICKET], text(e, ID))
  end
end
