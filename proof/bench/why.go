//go:build unix

package main

// reasons say why targets are missed, or were missed on some machine, by the key of the arena and the target's words.
var reasons = map[string]map[string]string{
	"redis": {
		"the same: at least 0.95× rueidislock's": "a lock is a script that keeps the queue, and an unlock one that looks who is next; rueidislock sets and " +
			"deletes a key, and learns of the end of a wait from the server's invalidations",
		"memory: at most 1 KiB a held lease": "a claim that holds is also in the table of those whose break its client hears of at once",
		"the same, in acquisitions, which peers have mostly by the same goroutine's taking the lock again": "on a slow machine, goroutines " +
			"that hand a lock on lose more than a server that answers one of them again and again",
		"the same with turns off: at least 0.8× what a list passes on between processes, by BLPOP and RPUSH": "each hand-over is a script that " +
			"enters and one that leaves, which read and write the queue's record, and a message, as those of the bare program",
		"hand-over to one waiter in another process: p50 at most 1.3× that of BLPOP and RPUSH": "two goroutines of the waiter are woken one " +
			"after the other, the one that reads the message and the one that waits, as in the bare program; with BLPOP it is one. The script that " +
			"leaves finds the server's core cold",
		"a queue of 8: at most 60 µs of the server to enter and leave":     "the scripts read and write the queue's record",
		"a queue of 64: at most 60 µs of the server to enter and leave":    "the scripts read and write the queue's record",
		"a queue of 256: at most 60 µs of the server to enter and leave":   "the scripts read and write the queue's record",
		"a queue of 1,000: at most 60 µs of the server to enter and leave": "the scripts read and write the queue's record",
		"1,000 clients that come at once: all wait within 50 ms": "a script that enters a queue takes the server 60 µs here, and one that sets a key 5; " +
			"the first of the clients listen to their messages meanwhile, and each client's own work shares the two cores with the server",
		"1,000 held leases, a ttl of 5 s: at most 300 commands/s, with those inside scripts": "each lease is a key that is kept alive by a " +
			"command of its own within a script, three times in its ttl",
		"1,000 clients that wait: under 1 % of a core of the server": "each client keeps its own place alive, three times in its ttl",
	},
	"redlock": {
		"5 servers, uncontended lock+unlock, 1 goroutine: p50 at most 1.05× redsync's": "as with three servers below",
		"3 servers, the same": "a lock is a script on each server, since it looks whether others wait; redsync's is a plain SET",
		"3 servers, a lock and unlock: at most 12 commands of all servers, with those inside scripts": "a lock is a script that looks whether " +
			"others wait, and counts with what it calls; redsync's is a plain SET",
	},
	"etcd": {
		"8 goroutines on 8 names: at least 0.95× the throughput": "a lock and an unlock are a request each, as the mutex's are, with one more " +
			"comparison and a longer value; the ratio differs by a sixth from round to round",
		"uncontended lock+unlock, 1 goroutine: p50 at most 1.05×": "the key is deleted only if nobody has changed it, so that an unlock never frees " +
			"what somebody else has kept, and its value says who holds",
		"1,000 held leases, a ttl of 5 s: at most 5 requests/s": "each claim has a lease of its own, so that one that is not renewed any more runs " +
			"out by itself, whatever else its client holds; one lease for all of them would keep it",
	},
	"setnx": {
		"uncontended lock+unlock, 1 goroutine: p50 at most 1.05× redislock's": "the difference is two steps of the histogram, of 131 µs each; with 64 " +
			"goroutines stile is quicker",
	},
	"zookeeper": {
		"64 goroutines on 64 names: at least 0.95× the throughput": "the server and the client share two cores: the ratio was from 0.7 to 1.3 in the rounds " +
			"of one run",
	},
	"postgres": {
		"uncontended lock+unlock, 1 goroutine: p50 at most 1.05× that of an INSERT and a DELETE": "the server computes the token, the end of the " +
			"lease and whether anybody waits in the statement that changes the row: 36 µs of it for the pair, beside 13 for a bare INSERT and DELETE",
		"hand-over to one waiter in another process: p50 at most 2× that of an advisory lock": "the row of the next claim is changed and committed, " +
			"and a notification is sent, before the waiter is woken; an advisory lock is passed on in memory",
	},
	"mysql": {
		"100 waiters of one process on a held name: at most 5 statements/s": "51 statements in ten seconds in place of 50: it is chance whether one more " +
			"renewal falls into the window",
		"uncontended lock+unlock, 1 goroutine: p50 at most 1.1× that of an INSERT and a DELETE": "the statements compute the token and the end of the " +
			"lease, and whether anybody waits",
		"one hot name, 64 goroutines of one process: at least 50×, in hand-overs": "a hand-over within the process is Go's, and asks the server " +
			"for nothing; GET_LOCK by as many connections is quicker here than where the bound comes from",
		"one hot name, 8 processes × 8 goroutines, with turns off: at least 0.5× GET_LOCK's hand-overs between processes": "a hand-over changes and " +
			"commits rows, about 18 statements; GET_LOCK and RELEASE_LOCK are two, and change nothing that lasts",
		"hand-over to one waiter in another process: p50 at most 2× that of GET_LOCK": "the rows are changed and committed before the waiter is " +
			"woken, who then has to ask, in the bare program too. A lock that the waiter waits for in the server needs a connection for each claim",
	},
	"sqlite": {
		"8 processes on names of their own: at least 0.7× an INSERT and a DELETE, in ops/s": "a transaction reads the queue and writes the " +
			"token's row and the claim's, and whoever comes after another process reads the changed pages anew",
		"8 processes on names of their own: p99 at most 8 ms": "SQLite has one writer at a time and no queue for it: whoever waits looks again after " +
			"a while. stile's waits are about even; bare rows have a short p99 since a few of them wait for very long",
		"hand-over to one waiter in another process: p50 at most 0.3 ms": "the unlock is a transaction, after a pause in which the core slept; the " +
			"bare row passed on takes as long but for a few statements",
		"`stile version` takes at most 4 ms": "the libraries that the command is linked with take longer by themselves",
		"`stile run x -- true` takes at most 8 ms": "the libraries that the command is linked with, and the file's first transaction, take most of " +
			"it without stile; the rest is a second process, which ends the command if the first one dies",
	},
}
