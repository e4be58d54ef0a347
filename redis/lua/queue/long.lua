-- A long queue is one string too, and is changed in place, so that a change costs the same however long it is:
--
--   LONGHEAD  mark, capacity, last ticket; when the first claim can run out, at the earliest; the entries of the index; the
--             bytes of a slot; the slots; the first that is not empty; the first that waits; the claims that are there; what
--             is left of the capacity; when the key expires, at the earliest
--   index     a hash table with open addressing, by id: for each entry the number of a slot, from 1; 0 if there is none
--   slots     CLAIM and its texts, in ticket order; a claim that has gone leaves its slot EMPTY
--
-- Slots before the first that waits hold, or are empty; no others hold. A queue is written anew, without its empty slots,
-- when the index is half full, and by whatever is not written out here: rule.lua reads and writes both forms.
local slot, find, extend, save, settle, prolong
if long then
  -- slot is where one begins in the string.
  slot = function(i)
    return LONGHEADSIZE + 4 * size + i * stride
  end

  -- find returns the slot of the claim with the id, and the claim with its first texts; or nil and the free entry of the
  -- index.
  find = function()
    local entry = tonumber(string.sub(redis.sha1hex(id), 1, 7), 16) % size
    for _ = 1, size do
      local at, i = LONGHEADSIZE + 4 * entry, nil
      if at + 4 <= #raw then -- mostly it was read with the head
        i = struct.unpack('>I4', raw, at + 1) - 1
      else
        i = struct.unpack('>I4', redis.call('GETRANGE', key, at, at + 3)) - 1
      end
      if i < 0 then
        return nil, at
      end
      local from = slot(i)
      local text = redis.call('GETRANGE', key, from, from + CLAIMSIZE + #id - 1)
      local e = {from, struct.unpack(CLAIM, text)}
      if e[STATE] ~= EMPTY and e[ID] == #id and string.sub(text, CLAIMSIZE + 1) == id then
        return i, e
      end
      entry = (entry + 1) % size
    end
  end

  -- extend lets the key live until a time at least; with some more, so that this is rare.
  extend = function(ends)
    ends = math.max(ends, newest)
    if ends > till then
      till = ends + math.min((ends - now) / 4, 5000000)
      redis.call('PEXPIRE', key, math.ceil((till - now) / 1000) + 1)
      return true
    end
  end

  save = function()
    redis.call('SETRANGE', key, LONGHEADLAST,
      struct.pack(LONGHEADREST, newest, due, size, stride, slots, first, waiter, live, free, till))
  end

  -- settle goes on to the first slot that is not empty, and tells those that hold because somebody left.
  settle = function()
    local text
    while first < slots do
      text = redis.call('GETRANGE', key, slot(first), slot(first + 1) - 1)
      if string.byte(text, ATSTATE + 1) ~= EMPTY then
        break
      end
      first = first + 1
    end
    if first < waiter then
      text = nil -- of one that holds
    else
      waiter = first
    end
    local woken = {}
    while waiter < slots do
      local from = slot(waiter)
      text = text or redis.call('GETRANGE', key, from, from + stride - 1)
      local e = {from, struct.unpack(CLAIM, text)}
      if e[STATE] ~= EMPTY then
        if e[WEIGHT] > free then
          break
        end
        free = free - e[WEIGHT]
        e.text = text
        woken[#woken + 1] = e
        extend(e[ENDS] + e[DELAY])
      end
      waiter, text = waiter + 1, nil
    end
    for _, e in ipairs(woken) do
      redis.call('SETRANGE', key, e[FROM] + ATSTATE, string.char(TOLD))
    end
    save()
    for _, e in ipairs(woken) do
      local from = e[TEXTS] + e[ID]
      tell(string.sub(e.text, from, from + e[CLIENT] - 1), e[TICKET], string.sub(e.text, e[TEXTS], from - 1))
    end
  end

  -- prolong starts the lease of claim i anew.
  prolong = function(i, e, ttl, wait)
    local gone = 0
    if i < waiter then
      e[ENDS] = math.max(e[ENDS], now + ttl)
      gone = e[ENDS] + e[DELAY]
    else
      e[ENDS] = math.max(e[ENDS], now + wait)
      gone = e[ENDS]
    end
    local longer = extend(gone)
    redis.call('SETRANGE', key, e[FROM] + ATENDS, struct.pack('>d', e[ENDS]))
    if longer then
      save()
    end
  end

  if due <= now then
    -- Something may have run out: look through all of them, and empty the slots of those that have.
    local all, ran, began = redis.call('GETRANGE', key, slot(first), slot(slots) - 1), {}, first
    due, live, free, waiter = math.huge, 0, total, slots
    for i = began, slots - 1 do
      local at = (i - began) * stride
      local ends, delay, state = struct.unpack('>ddB', all, at + ATENDS + 1)
      if state == TOLD then
        ends = ends + delay
      end
      if state ~= EMPTY and ends <= now then
        ran[#ran + 1] = i
      elseif state ~= EMPTY then
        due, live = math.min(due, ends), live + 1
        if state == WAITS then
          waiter = math.min(waiter, i)
        else
          free = free - struct.unpack('>I4', all, at + ATWEIGHT + 1)
        end
      end
    end
    for _, i in ipairs(ran) do
      redis.call('SETRANGE', key, slot(i) + ATSTATE, string.char(EMPTY))
    end
    settle()
  end
end
