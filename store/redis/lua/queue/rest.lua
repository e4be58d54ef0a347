-- What the lone paths need not have: the whole of a short queue, and how a client is told.
if raw == '' or raw and not long and #raw >= PAGE then
  raw = redis.call('GET', key)
  if raw == '' then
    return {key, id, 'foreign', 'string'}
  end
end

-- tell tells a client that its claim holds. A client that may not be told still finds out when it asks again.
local function tell(client, ticket, whose)
  local prefix, tag = string.match(key, '^(.-)({.*})$')
  local channel = prefix .. 'inbox/' .. (SHARDED and tag .. '/' or '') .. client
  redis.pcall(PUBLISH, channel, string.format('%.0f', ticket) .. ' ' .. whose .. ' ' .. key)
end
