-- driver.Leave for claims on as many names of one server, each of which is the only one on its name and is not to be kept: what
-- leave_lone.lua does for one. KEYS: the names'. ARGV: the id of the first claim, and of each what leave_lone.lua is given of it.
-- The answer has for each a 1 if it has left, or a 0: that one is to leave by itself, which also finds out what is wrong with it.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local all = redis.pcall('MGET', unpack(KEYS))
local answer, leaving = {}, {}
for i, key in ipairs(KEYS) do
  local raw, rest = all[i], ARGV[i + 1]
  answer[i] = '0'
  if type(raw) == 'string' and #raw == LONEREST - 1 + #rest and string.sub(raw, LONEREST) == rest then
    local last, _, _, _, ends, _, state = struct.unpack(LONE, raw, LONEFROM)
    if last < now and now < ends and state ~= LEFT then
      answer[i], leaving[#leaving + 1] = '1', key
    end
  end
end
if #leaving > 0 then
  redis.call('DEL', unpack(leaving))
end
return ARGV[1] .. '\n' .. clock[1] .. '.' .. clock[2] .. '\n' .. table.concat(answer)
