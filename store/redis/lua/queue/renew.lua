-- driver.Renew for one claim. ARGV: id, ttl, wait; to amend it too, weight or 0, the record that it has, and another or none.
-- The answer tells why it is not amended: 1 because it waits, 2 because it has the record that follows.
if not (mine and live(queue[mine])) then
  commit()
  return {key, id, 'gone'}
end
if ARGV[4] then
  local e, weight, from, to = queue[mine], tonumber(ARGV[4]), ARGV[5], ARGV[6]
  local record = text(e, RECORD)
  if mine > holding() then
    commit()
    return {key, id, 'ok', 0, 1}
  end
  if to ~= '' and record ~= to and record ~= from then
    commit()
    return {key, id, 'ok', 0, 2, record}
  end
  if weight > 0 then
    e[WEIGHT] = math.min(e[WEIGHT], weight)
  end
  if to ~= '' then
    e[TEXTS], e[RECORD] = text(e, ID) .. text(e, CLIENT) .. text(e, OWNER) .. to, #to
  end
end
stay(mine, tonumber(ARGV[2]), tonumber(ARGV[3]))
commit()
return {key, id, 'ok', queue[mine][ENDS] - now}
