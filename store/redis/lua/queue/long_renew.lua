-- driver.Renew in a long queue, if it amends nothing.
if long and live >= LEAST and not ARGV[4] then
  local i, e
  FIND
  if e and (not i or now >= e[ENDS] or e[STATE] == LEFT) then
    return {key, id, 'gone'}
  end
  if i then
    local ttl, wait = tonumber(ARGV[2]), tonumber(ARGV[3])
    PROLONG
    return {key, id, 'ok', e[ENDS] - now}
  end
end
