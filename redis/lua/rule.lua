-- The rule, and what can happen to a queue: driver.Queue, step for step.
local capacity, last, queue, changed = 0, 0, {}, false
if raw then
  local _, at
  _, capacity, last, at = struct.unpack(HEAD, raw)
  while at <= #raw do
    local e = {struct.unpack(CLAIM, raw, at)}
    at = table.remove(e)
    queue[#queue + 1] = e
  end
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

local function filter(list, stays)
  local rest = {}
  for _, e in ipairs(list) do
    if stays(e) then
      rest[#rest + 1] = e
    end
  end
  return rest
end

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

local function find(id)
  for i, e in ipairs(queue) do
    if e[ID] == id then
      return i
    end
  end
end

-- stay starts the lease of claim i anew. A lease is never made shorter.
local function stay(i, ttl, wait)
  local e = queue[i]
  if i <= holding() then
    e[STATE], wait = TOLD, ttl
  end
  e[ENDS] = math.max(e[ENDS], now + wait)
  changed = true
end

-- standing adds claim i, as an observer sees it, to an answer.
local function standing(answer, i)
  local e, n = queue[i], #answer
  answer[n + 1], answer[n + 2] = e[TICKET], e[WEIGHT]
  answer[n + 3], answer[n + 4] = i <= holding() and 1 or 0, e[STATE] == LEFT and 1 or 0
  answer[n + 5], answer[n + 6], answer[n + 7] = now - e[SINCE], e[ENDS] - now, e[RECORD]
  return answer
end

-- place tells where claim i stands, or, if i is one past the tail, where it would.
local function place(i)
  local e = queue[i]
  local holds = e ~= nil and i <= holding()
  local answer = {key, id, 'ok', e and e[TICKET] or 0, holds and 1 or 0, e and e[ENDS] - now or 0, i - 1}
  if holds or i == 1 then
    return answer
  end
  local first = gone(queue[1])
  for n = 2, i - 1 do
    first = math.min(first, gone(queue[n]))
  end
  answer[8] = first - now
  return standing(answer, 1)
end

-- commit stores the queue if it has changed, and then tells the clients whose claims hold because of it. The key lives
-- as long as its last claim, and no shorter than until the clock has passed the last ticket, so that tickets rise.
local function commit()
  if not changed then
    return
  end
  local woken, ends, parts = {}, last, {''}
  local held = holding()
  for i, e in ipairs(queue) do
    if i <= held and e[STATE] == WAITS and live(e) then
      e[STATE] = TOLD
      woken[#woken + 1] = e
    end
    ends = math.max(ends, gone(e))
    parts[i + 1] = struct.pack(CLAIM, e[TICKET], e[WEIGHT], e[SINCE], e[ENDS], e[DELAY], e[STATE],
      #e[ID], e[ID], #e[CLIENT], e[CLIENT], #e[OWNER], e[OWNER], #e[RECORD], e[RECORD])
  end
  if ends < now then
    redis.call('DEL', key)
  else
    parts[1] = struct.pack(HEAD, MARK, capacity, last)
    redis.call('SET', key, table.concat(parts), 'PX', math.ceil((ends - now) / 1000) + 1)
  end
  for _, e in ipairs(woken) do
    -- A client that may not be told still finds out when it asks again.
    local prefix, tag = string.match(key, '^(.-)({.*})$')
    local channel = prefix .. 'inbox/' .. (SHARDED and tag .. '/' or '') .. e[CLIENT]
    redis.pcall(PUBLISH, channel, string.format('%.0f', e[TICKET]) .. ' ' .. e[ID] .. ' ' .. key)
  end
end

local all = #queue
queue = filter(queue, function(e) return gone(e) > now end)
changed = #queue ~= all
