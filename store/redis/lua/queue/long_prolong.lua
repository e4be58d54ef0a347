-- The lease of claim i starts anew.
local gone
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
