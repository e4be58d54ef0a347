-- driver.Enter. ARGV: id, client, owner, record, weight, capacity, ttl, wait, delay, ticket, flags (t: try, r: reclaim).
local ttl, wait, try = tonumber(ARGV[7]), tonumber(ARGV[8]), string.find(ARGV[11], 't', 1, true)
local i = find(id)
if i and live(queue[i]) then
  stay(i, ttl, wait)
  commit()
  return place(i)
end
if i or ARGV[10] ~= '0' then
  commit()
  return {key, id, 'gone'}
end

local weight, want, owner, rest = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[3], queue -- rest: what the claim would join
if string.find(ARGV[11], 'r', 1, true) and owner ~= '' then
  rest = filter(queue, function(e) return e[OWNER] ~= owner end)
end
if #rest > 0 and capacity ~= want then
  commit()
  return {key, id, 'capacity', capacity}
end
if try then
  local left = want - weight
  for _, e in ipairs(rest) do
    left = left - e[WEIGHT]
  end
  if left < 0 then
    commit()
    return place(#queue + 1)
  end
end

capacity, queue = want, rest
last = math.max(last + 1, now)
i = #queue + 1
queue[i] = {last, weight, now, now, tonumber(ARGV[9]), WAITS, id, ARGV[2], owner, ARGV[4]}
stay(i, ttl, wait)
commit()
return place(i)
