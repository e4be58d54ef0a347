//go:build unix

package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// reasons say why targets are missed, or were missed on some machine, by the key of the arena and the target's words.
var reasons = map[string]map[string]string{
	"redis": {
		"2 goroutines on 2 names: at least 1.5× redislock's throughput": fewGoroutines,
		"4 goroutines on 4 names: at least 1.5× redislock's throughput": fewGoroutines,
		"8 goroutines on 8 names: at least 1.5× redislock's throughput": fewGoroutines,
		"64 goroutines on 64 names: at least 2.2× redislock's throughput": "the client and the server have a core each, and the client's is " +
			"full: what remains is the client's own work for each claim",
		"the same: at least 1.2× rueidislock's": "as above",
		"the same: at least 0.7× that of bare commands by the same client library": "as above; a claim has its queue, " +
			"its deadline and its renewal, and a bare command has none",
		"the same, in acquisitions, which peers have mostly by the same goroutine's taking the lock again": "on a slow machine, goroutines " +
			"that hand a lock on lose more than a server that answers one of them again and again",
		"the same with turns off: at least 0.8× what a list passes on between processes, by BLPOP and RPUSH": "each hand-over is a script that " +
			"enters and one that leaves, which read and write the queue's record, and a message, as those of the bare program",
		"hand-over to one waiter in another process: p50 at most 1.3× that of BLPOP and RPUSH": "two goroutines of the waiter are woken one " +
			"after the other, the one that reads the message and the one that waits, as in the bare program; with BLPOP it is one. The script that " +
			"leaves finds the server's core cold",
		"the same: p50 no slower than redsync": "a round trip takes 40 or 100 µs, as the system has client and server share a core or " +
			"wakes another for each: whose median has which is luck",
		"hand-over to one waiter in another process: p50 under 3 round trips, made after pauses like those of the hand-overs": "a hand-over is two " +
			"round trips and two goroutines that are woken one after the other; how long the system takes to wake a core that sleeps " +
			"differs from run to run",
		"the same, against round trips one after the other":                "round trips without a pause find all cores awake; a waiter's core sleeps",
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
	"setnx": {
		"64 goroutines on 64 names: at least 2× redislock's throughput": "the client's core is full, as with the other layout",
	},
	"redlock": {
		"5 servers, uncontended lock+unlock, 1 goroutine: p50 at most 0.8× redsync's": "as with three servers below; whether it is met differs from run to " +
			"run, since five servers and the client share two cores",
		"5 servers, one of them down: at most 1.2× stile's own p50 with all": "three of four have to answer in place of three of five, so a slower " +
			"one decides",
		"3 servers, the same: at most 0.85×": "a lock is a script on each server, since it looks whether others wait; redsync's is a plain SET",
		"3 servers, a lock and unlock: at most 12 commands of all servers, with those inside scripts": "a lock is a script that looks whether " +
			"others wait, and counts with what it calls; redsync's is a plain SET",
		"5 servers, 16 processes of 1 goroutine, which redsync has mostly take the lock again themselves: the same": "redsync's holder takes the " +
			"lock again before another process hears that it is free; stile gives it to whoever waits, by messages of five servers",
		"3 servers, 16 processes of 1 goroutine, which redsync has mostly take the lock again themselves: the same": "as with five servers",
		"3 servers, the same in hand-overs, so without those": "16 clients and three servers share two cores, and each hand-over wakes the " +
			"waiter by a majority's messages",
	},
	"etcd": {
		"uncontended lock+unlock, 1 goroutine: p50 no slower": "the key is deleted only if nobody has changed it, so that an unlock never frees " +
			"what somebody else has kept, and its value says who holds",
		"1,000 held leases, a ttl of 5 s: at most 5 requests/s": "each claim has a lease of its own, so that one that is not renewed any more runs " +
			"out by itself, whatever else its client holds; one lease for all of them would keep it",
	},
	"zookeeper": {
		"64 goroutines on 64 names: throughput no lower": "the server and the client share two cores, and the client's protocol runs in Go's " +
			"scheduler beside 64 goroutines",
	},
	"postgres": {
		"uncontended lock+unlock, 1 goroutine: p50 at most 1.05× that of an INSERT and a DELETE": "the server computes the token, the end of the " +
			"lease and whether anybody waits in the statement that changes the row: 36 µs of it for the pair, beside 13 for a bare INSERT and DELETE",
		"hand-over to one waiter in another process: p50 at most 2× that of an advisory lock": "the row of the next claim is changed and committed, " +
			"and a notification is sent, before the waiter is woken; an advisory lock is passed on in memory",
	},
	"mysql": {
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

// fewGoroutines is formatted with how many times faster than redislock the bare program was in the page's run.
const fewGoroutines = "a bare program on the same client library has %.2g× redislock's throughput in this run, less than the bound: it makes " +
	"the same round trips, and has no queue, no deadline and no renewal"

// whyOf returns why a target is not met, with the figures of its row.
func (s *standing) whyOf(arena string, target []string) string {
	why := reasons[arena][target[0]]
	if why != fewGoroutines {
		return why
	}
	bare, peer, bound := number(s.cell(target, "bare limit")), number(s.cell(target, "compared with")), number(s.cell(target, "bound"))
	if peer == 0 || bare/peer >= bound {
		return "a claim has its queue, its deadline and its renewal, and a bare command has none"
	}
	return fmt.Sprintf(why, bare/peer)
}

var digits = regexp.MustCompile(`[\d,.]*\d`)

// number parses the figure of a cell, which may follow a name; 0 if there is none.
func number(cell string) float64 {
	if i := strings.LastIndex(cell, ": "); i >= 0 {
		cell = cell[i:]
	}
	n, _ := strconv.ParseFloat(strings.ReplaceAll(digits.FindString(cell), ",", ""), 64)
	return n
}
