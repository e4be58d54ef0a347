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
--
-- What a script makes is garbage when it ends: a byte that it reads takes the server 1.5 ns, and each function with the variables
-- around it 0.2 µs. So scripts read no more than they need, and have few functions.
local base, extend, save, settle
if long then
  base = LONGHEADSIZE + 4 * size -- where the first slot begins in the string

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
end
if long and (SETTLES or due <= now) then
  -- settle goes on to the first slot that is not empty, of which the text may be given, and tells those that hold because
  -- somebody left.
  settle = function(text)
    while first < slots do
      local from = base + first * stride
      text = text or redis.call('GETRANGE', key, from, from + stride - 1)
      if string.byte(text, ATSTATE + 1) ~= EMPTY then
        break
      end
      first, text = first + 1, nil
    end
    if first < waiter then
      text = nil -- of one that holds
    else
      waiter = first
    end
    local woken = {}
    while waiter < slots do
      local from = base + waiter * stride
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

  if due <= now then
    -- Something may have run out: look through all of them, and empty the slots of those that have.
    local all, ran, began = redis.call('GETRANGE', key, base + first * stride, base + slots * stride - 1), {}, first
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
      redis.call('SETRANGE', key, base + i * stride + ATSTATE, string.char(EMPTY))
    end
    settle()
  end
end
