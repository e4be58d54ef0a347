-- driver.Enter on a name that nobody uses, before anything is read or set up: the usual case, and the quick one. What it
-- stores is the queue of that one claim, of which the client has packed what does not depend on the time. ARGV: id, ttl, how
-- long the key of a claim that is alone lives, HEAD before the last ticket, and of CLAIM the weight, the lock-delay, and what
-- is after the state; then wait, flags (t: try, r: reclaim), and for a claim that is in the queue its ticket.
--
-- Without this and leave_lone.lua, a lock and unlock over a link of 4.8 ms takes the server's processor 1.4 to 2.3 times as long, and
-- on one machine twice as long in all.
local key, id = KEYS[1], ARGV[1]
if not ARGV[10] then
  local clock = redis.call('TIME')
  local now = clock[1] * 1000000 + clock[2]
  if redis.call('SET', key, struct.pack(HEADCLAIM, ARGV[4], now, now, ARGV[5], now - MODERN, now + ARGV[2], ARGV[6], TOLD, ARGV[7]),
    'NX', 'PX', ARGV[3]) then
    return id .. '\n' .. clock[1] .. '.' .. clock[2]
  end
end
