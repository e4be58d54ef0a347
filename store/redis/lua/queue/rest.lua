-- What the lone paths need not have: the whole of a short queue, and how a client is told.
if raw == '' or raw and not long and #raw >= PAGE then
  raw = redis.call('GET', key)
  if raw == '' then
    return {key, id, 'foreign', 'string'}
  end
end

-- say sends a client a message about a claim that waits.
local function say(client, news)
  local prefix, tag = string.match(key, '^(.-)({.*})$')
  redis.pcall(PUBLISH, prefix .. 'inbox/' .. (SHARDED and tag .. '/' or '') .. client, news)
end

-- tell tells a client that its claim holds. A client that may not be told still finds out when it asks again.
local function tell(client, ticket, whose)
  say(client, string.format('%.0f', ticket) .. ' ' .. whose .. ' ' .. key)
end
