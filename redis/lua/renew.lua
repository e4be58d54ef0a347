-- driver.Renew for one claim. ARGV: id, ttl, wait.
local i = find(id)
if not (i and live(queue[i])) then
  commit()
  return {key, id, 'gone'}
end
stay(i, tonumber(ARGV[2]), tonumber(ARGV[3]))
commit()
return {key, id, 'ok', queue[i][ENDS] - now}
