-- driver.Enter on a name that nobody uses, before anything is read or set up: the usual case, and the quick one. What it
-- stores is the queue of that one claim, of which the client has packed what does not depend on the time. ARGV: id, ttl, how
-- long the key of a claim that is alone lives, HEAD before the last ticket, and of CLAIM the weight, the lock-delay, and what
-- is after the state; then wait, flags (t: try, r: reclaim), and for a claim that is in the queue its ticket.
--
-- With leave_lone.lua it takes the server 11.4 µs on a busy machine, and took 12.4 in the same minutes when this packed all of
-- the claim and that took it apart; scripts without queue, ticket and time take 4.6 (the least of many rounds,
-- cd store/redis && go test -run '^$' -bench Scripts -benchtime 200x .).
local key, id = KEYS[1], ARGV[1]
if not ARGV[10] then
  local clock = redis.call('TIME')
  local now = clock[1] * 1000000 + clock[2]
  if redis.call('SET', key, struct.pack(HEADCLAIM, ARGV[4], now, now, ARGV[5], now - MODERN, now + ARGV[2], ARGV[6], TOLD, ARGV[7]),
    'NX', 'PX', ARGV[3]) then
    return id .. '\n' .. clock[1] .. '.' .. clock[2]
  end
end
