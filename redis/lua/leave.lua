-- driver.Leave. ARGV: id, how long to keep the lock.
local i, kept = find(id), tonumber(ARGV[2])
if not (i and live(queue[i])) then
  commit()
  return {key, id, 'gone'}
end
if kept > 0 and i <= holding() then
  queue[i][STATE], queue[i][ENDS] = LEFT, now + kept
else
  table.remove(queue, i)
end
changed = true
commit()
return {key, id, 'ok'}
