-- driver.Breaker. ARGV: nothing, the ticket of the claim or 0 for the one at the head, and who breaks it and why.
local ticket, record = tonumber(ARGV[2]), ARGV[3] or ''
for i, e in ipairs(queue) do
  if e[TICKET] == ticket or ticket == 0 then
    local held = holding()
    local answer = standing({key, id, 'ok'}, i, held)
    local client, whose = text(e, CLIENT), text(e, ID)
    table.remove(queue, i)
    changed = true
    commit()
    -- In a cluster this goes to all servers: a client that holds does not listen to each name.
    local prefix = string.match(key, '^(.-){.*}$')
    local news = 'broken ' .. #record .. ' ' .. record .. ' ' .. whose .. ' ' .. key
    redis.pcall('publish', prefix .. 'inbox/' .. client, news)
    if i > held then -- ticket 0 has it enter again, and be told that it is gone: the client knows why before that
      if SHARDED then
        say(client, news)
      end
      tell(client, 0, whose)
    end
    return answer
  end
end
commit()
return {key, id, 'gone'}
