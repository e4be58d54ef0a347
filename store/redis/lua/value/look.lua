-- ARGV: "", whether only stile's own count
if not value or ARGV[2] == 'own' and not mine then
  return {key, id, 'ok'}
end
return {key, id, 'ok', standing()}
