-- Layout exset keeps a lock as layout setnx does, but in a TairString, which has a version. These are the commands of
-- the parts that follow, on one. The version is the ticket of the claim that took the lock, so it does not begin at 1
-- for each of them, and what has another version was written by somebody else, whatever it says.
local server, version = redis, nil
local redis = {}

local function ticketOf(value) return string.match(value, '^stile1[-a-z]*\n[^\n]*\n(%d+)\n') end

function redis.pcall(_, key)
  local found = server.pcall('EXGET', key)
  if not found or found.err then
    return found
  end
  version = string.format('%.0f', found[2])
  local ticket = ticketOf(found[1])
  if ticket and ticket ~= version then
    return 'changed\n' .. found[1]
  end
  return found[1]
end

function redis.call(command, key, ...)
  if command == 'SET' then
    local value, px, span = ...
    if version then
      return server.call('EXSET', key, value, px, span, 'ABS', ticketOf(value))
    end
    return server.call('EXSET', key, value, 'NX', px, span, 'ABS', ticketOf(value))
  elseif command == 'DEL' then
    return server.call('EXCAD', key, version)
  elseif command == 'TIME' then
    return server.call(command)
  end
  return server.call(command, key, ...)
end
