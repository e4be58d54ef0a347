-- driver.Leave. ARGV: id, how long to keep the lock.
if not (mine and live(queue[mine])) then
  commit()
  return {key, id, 'gone'}
end
local e, kept, first = queue[mine], tonumber(ARGV[2])
if kept > 0 and mine <= holding() then
  e[STATE], e[ENDS], e[FROM] = LEFT, now + kept, false
  first = queue[holding() + 1] -- that waits, and is to notice an end that has come nearer
else
  table.remove(queue, mine)
end
changed = true
commit()
if first then -- ticket 0 has it enter again
  tell(text(first, CLIENT), 0, text(first, ID))
end
return {key, id, 'ok'}
