-- driver.Breaker. ARGV: nothing, the ticket of the claim or 0 for the one at the head.
local ticket = tonumber(ARGV[2])
for i, e in ipairs(queue) do
  if e[TICKET] == ticket or ticket == 0 then
    local answer = standing({key, id, 'ok'}, i, holding())
    table.remove(queue, i)
    changed = true
    commit()
    return answer
  end
end
commit()
return {key, id, 'gone'}
