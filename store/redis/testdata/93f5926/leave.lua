-- driver.Leave. ARGV: id, how long to keep the lock.
if not (mine and live(queue[mine])) then
  commit()
  return {key, id, 'gone'}
end
local e, kept = queue[mine], tonumber(ARGV[2])
if kept > 0 and mine <= holding() then
  e[STATE], e[ENDS], e[FROM] = LEFT, now + kept, false
else
  table.remove(queue, mine)
end
changed = true
commit()
return {key, id, 'ok'}
