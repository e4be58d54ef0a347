-- driver.Renew for one claim. ARGV: id, ttl, wait.
if not (mine and live(queue[mine])) then
  commit()
  return {key, id, 'gone'}
end
stay(mine, tonumber(ARGV[2]), tonumber(ARGV[3]))
commit()
return {key, id, 'ok', queue[mine][ENDS] - now}
