-- ARGV: "", ticket, or 0 for whoever has the lock
if not value or ARGV[2] ~= '0' and ARGV[2] ~= ticket then
  return {key, id, 'gone'}
end
local answer = {key, id, 'ok', standing()}
redis.call('DEL', key)
return answer
