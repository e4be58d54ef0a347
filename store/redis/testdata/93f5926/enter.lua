-- driver.Enter. ARGV: id, client, owner, record, weight, capacity, ttl, wait, delay, ticket, flags (t: try, r: reclaim).
local ttl, wait = tonumber(ARGV[7]), tonumber(ARGV[8])
if mine and live(queue[mine]) then
  stay(mine, ttl, wait)
  local answer = place(mine)
  commit()
  return answer
end
if mine or ARGV[10] ~= '0' then
  commit()
  return {key, id, 'gone'}
end

local client, owner, record, weight, want = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local rest = queue -- what the claim would join
if string.find(ARGV[11], 'r', 1, true) and owner ~= '' then
  rest = {}
  for _, e in ipairs(queue) do
    if text(e, OWNER) ~= owner or text(e, CLIENT) == client then
      rest[#rest + 1] = e
    end
  end
end
if #rest > 0 and capacity ~= want then
  commit()
  return {key, id, 'capacity', capacity}
end
if string.find(ARGV[11], 't', 1, true) then
  local left = want - weight
  for _, e in ipairs(rest) do
    left = left - e[WEIGHT]
  end
  if left < 0 then
    local answer = place(#queue + 1)
    commit()
    return answer
  end
end

capacity, queue = want, rest
last = math.max(last + 1, now)
mine = #queue + 1
queue[mine] = {false, last, weight, now, now, tonumber(ARGV[9]), WAITS,
  #id, #client, #owner, #record, id .. client .. owner .. record}
stay(mine, ttl, wait)
local answer = place(mine)
commit()
return answer
