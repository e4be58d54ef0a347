-- driver.Enter. ARGV is told of in enter_lone.lua.
local ttl, wait = tonumber(ARGV[2]), tonumber(ARGV[8])
if mine and live(queue[mine]) then
  stay(mine, ttl, wait)
  local answer = place(mine)
  commit()
  return answer
end
if mine or ARGV[10] then
  commit()
  return {key, id, 'gone'}
end

local a, b, c, d, at = struct.unpack(SIZES, ARGV[7])
local weight, want = struct.unpack('>I4', ARGV[5]), struct.unpack('>I4', ARGV[4], #MARK + 1)
local rest = queue -- what the claim would join
if c > 0 and string.find(ARGV[9], 'r', 1, true) then
  local client, owner = string.sub(ARGV[7], at + a, at + a + b - 1), string.sub(ARGV[7], at + a + b, at + a + b + c - 1)
  rest = {}
  for _, e in ipairs(queue) do
    if e[STATE] == LEFT or text(e, OWNER) ~= owner or text(e, CLIENT) == client then
      rest[#rest + 1] = e
    end
  end
end
if #rest > 0 and capacity ~= want then
  commit()
  return {key, id, 'capacity', capacity}
end
if string.find(ARGV[9], 't', 1, true) then
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
queue[mine] = {false, last, weight, now - MODERN, now, struct.unpack('>d', ARGV[6]), WAITS, a, b, c, d, string.sub(ARGV[7], at)}
stay(mine, ttl, wait)
local answer = place(mine)
commit()
return answer
