-- ARGV: id, ticket. It may stand by an id that was drawn for this server only: its own, a dash and a number.
if not mine or gone or ticket ~= ARGV[2] or mine ~= id and not (string.sub(mine, 1, #id + 1) == id .. '-' and string.find(mine, '^%d+$', #id + 2)) then
  return {key, id, 'gone'}
end
return {key, id, 'ok', mine, client, owner, record}
