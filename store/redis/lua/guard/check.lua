-- A mark is the string of its token in decimal. Numbers of Lua are not exact from 2^53 on, so tokens stay texts.

-- lower tells whether a token comes before another.
local function lower(a, b)
  return #a < #b or #a == #b and a < b
end

-- check takes the mark's key and the token from the end of the two lists, and returns the answer if they differ.
local function check(keys, args)
  local mark, token = redis.call('GET', table.remove(keys)), table.remove(args)
  if mark ~= token then
    return {'mark', mark or ''}
  end
end

