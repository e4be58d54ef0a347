-- Every script begins here, enter after its quick part. It works on one name, whose queue is the string at KEYS[1]. A short
-- queue is HEAD (mark, capacity, last ticket), then for each claim, in ticket order, CLAIM (the last four numbers are sizes)
-- and its texts id, client, owner, record. A long one is told of in long.lua.
-- Words in capitals are constants, which script.go puts in.
-- Every answer begins with the key and the id in ARGV[1], or is a text whose first line is the id, so that the caller sees
-- whose it is. Times are in microseconds.
-- What a script writes, it writes after everything that can fail; so an error means that nothing was changed.
local key, id = KEYS[1], ARGV[1]
local raw = redis.pcall(READ)
