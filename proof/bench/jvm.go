//go:build unix

package main

import (
	"errors"
	"os/exec"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/histogram"
	"github.com/stilelock/stile/internal/java"
)

// A child of its own, in java/, drives libraries for Java. It gets the same tasks as a child in Go, and reports in the same
// way. On these pages children do everything, also for stile.

const (
	redisson = "Redisson"
	curator  = "Curator"
)

// jvmArenas are what make bench-jvm measures.
var jvmArenas = []*arena{
	jvmArena(redisArena, redisson, "org.redisson:redisson", "`getLock`; `lockWatchdogTimeout` is the ttl; all else as the library has it"),
	jvmArena(zooKeeperArena, curator, "org.apache.curator:curator-recipes",
		"`InterProcessMutex`, one for each thread; the session is as long as the ttl, `ExponentialBackoffRetry(1000, 3)`; all else as the library has it"),
}

// jvmArena returns the arena of the same server with a library for Java.
func jvmArena(on *arena, peer, library, set string) *arena {
	return &arena{
		key: on.key + "-jvm", page: strings.TrimSuffix(on.page, ".md") + "-jvm.md", title: on.name() + ", beside " + peer,
		server: on.server, conditions: on.conditions, start: on.start, version: on.version, count: on.count,
		contenders:  []contender{on.find(ours), {name: peer, about: set, renews: true}},
		libraries:   []string{library},
		note:        "A thread of Java stands for a goroutine. A JVM has " + javaWarm.String() + " before each window, so that its compiler has done its work.",
		uncontended: []string{ours, peer}, contended: []string{ours, peer},
		measures: jvmMeasures, targets: jvmTargets(peer),
	}
}

func jvmMeasures(b *bench) []*measure {
	speed := []column{{"rate", "ops/s", 0}, {"p50", "p50 µs", 0}, {"p99", "p99 µs", 0}}
	each := b.window + javaWarm/2 + time.Second
	uncontended := func(key string, size int) func(c contender) (sample, error) {
		return func(c contender) (sample, error) { return b.ownOne(key, c, 1, size) }
	}
	return []*measure{
		{
			key: "alone", title: "Uncontended, one thread", columns: speed, each: each,
			about: "One thread locks and unlocks one name that nobody else wants. A time is that of lock and unlock together.",
			rows:  b.arena.among(uncontended("alone", 1), b.arena.uncontended...),
		},
		{
			key: "apart", title: "Uncontended, 64 threads on 64 names", columns: speed, each: each,
			about: "Each of 64 threads of one process, which share one client, locks and unlocks a name of its own.",
			rows:  b.arena.among(uncontended("apart", contentionSize), b.arena.uncontended...),
		},
		{
			key: "hot", title: "One hot name, 64 threads of one process", columns: contentionColumns, each: each,
			about: "They share one client, and lock and unlock the same name with nothing in between. A hand-over is an acquisition by " +
				"another thread than the one that had the lock before.",
			rows: b.arena.among(func(c contender) (sample, error) { return b.fleetOne("hot", c, 1, contentionSize) }, b.arena.contended...),
		},
		{
			key: "fleet", title: "One hot name, 8 processes of 8 threads", columns: crossedColumns(), each: 2 * each,
			about: "The same in eight processes with one client each, which begin together. A memory that all processes share says who had the " +
				"lock before.",
			rows: b.arena.among(func(c contender) (sample, error) { return b.fleetOne("fleet", c, processes, contentionSize) }, b.arena.contended...),
		},
		{
			key: "handover", title: "Hand-over to one waiter in another process", each: each + time.Second,
			about: "One process holds the lock, another waits for it, for 10 to 30 ms. The time is from the call of unlock until lock has " +
				"returned in the other process, by the clock that both share.",
			columns: []column{{"p50", "p50 µs", 0}, {"p99", "p99 µs", 0}, {"n", "samples", 0}},
			rows:    b.arena.among(b.passOne, b.arena.contended...),
		},
	}
}

func jvmTargets(peer string) []target {
	return []target{
		{text: "uncontended lock+unlock, 1 thread: p50 no slower",
			measure: "alone", row: ours, column: "p50", unit: "µs", against: rivals("alone", peer), most: true, bound: 1},
		{text: "64 threads on 64 names: throughput no lower",
			measure: "apart", row: ours, column: "rate", unit: "/s", against: rivals("apart", peer), bound: 1},
		{text: "one hot name, 64 threads of one process: at least 50×, in hand-overs",
			measure: "hot", row: ours, column: "passed", unit: "/s", against: rivals("hot", peer), bound: 50},
		{text: "one hot name, 8 processes × 8 threads: at least 2×, in hand-overs",
			measure: "fleet", row: ours, column: "passed", unit: "/s", against: rivals("fleet", peer), bound: 2},
		{text: "hand-over to one waiter in another process: p50 no slower",
			measure: "handover", row: ours, column: "p50", unit: "µs", against: rivals("handover", peer), most: true, bound: 1},
	}
}

// javaWarm is how long a child in Java works before a window, for its compiler.
const javaWarm = 6 * time.Second

// warm is how long a child of a contender works before the window.
func (b *bench) warm(c contender) time.Duration {
	switch {
	case c.java() && !b.brief:
		return javaWarm
	case c.java():
		return time.Second
	}
	return max(b.window/4, 200*time.Millisecond)
}

// passOne lets one child pass the lock to another.
func (b *bench) passOne(c contender) (s sample, err error) {
	t := task{Store: b.arena.key, Addr: b.addr, Contender: c.name, Java: c.java(), TTL: defaultTTL, Name: b.name()}
	var both [2]*child
	defer func() {
		for _, p := range both {
			if p == nil {
				continue
			}
			if ended := p.end(err == nil); err == nil {
				err = ended
			}
		}
	}()
	for i, role := range []string{"passer", "waiter"} {
		t.Role = role
		if both[i], err = startChild(&t); err != nil {
			return nil, err
		}
	}
	if _, err := passBetween(both[0], both[1]); err != nil { // after both have begun
		return nil, err
	}
	var times histogram.Histogram
	begin := time.Now().Add(b.warm(c))
	for end := begin.Add(b.window); time.Now().Before(end); {
		counts := time.Now().After(begin)
		d, err := passBetween(both[0], both[1])
		if err != nil {
			return nil, err
		}
		if counts {
			times.Add(d)
		}
	}
	return sampleOf(&times), errors.Join(both[0].say(false), both[1].say(false))
}

// passBetween lets one child pass a lock to another, and returns how long that took.
func passBetween(from, to *child) (time.Duration, error) {
	var begin, end time.Duration
	err := from.say(true)
	for _, step := range []func() error{
		func() error { return from.hearWord("held") },
		func() error { return to.say(true) },
		func() error { return to.hearWord("waiting") },
		func() error { time.Sleep(between(waitLeast, waitMost)); return from.say("release") },
		func() error { return from.hear(&begin) },
		func() error { return to.hear(&end) },
	} {
		if err == nil {
			err = step()
		}
	}
	return end - begin, err
}

// passerRole takes the lock again and again, and reports when it began to release it.
func passerRole(t *task, parent *lines) error {
	lib, err := t.open()
	if err != nil {
		return err
	}
	defer lib.close()
	m := lib.mutex(t.Name)
	for {
		var more bool
		if err := parent.hear(&more); err != nil || !more {
			return err
		}
		h, err := lockSurely(m)
		if err != nil {
			return err
		}
		if err := parent.say("held"); err != nil {
			return err
		}
		if err := parent.hearWord("release"); err != nil {
			return err
		}
		begin, err := now()
		if err != nil {
			return err
		}
		if err := h.Unlock(); err != nil {
			return err
		}
		if err := parent.say(begin); err != nil {
			return err
		}
	}
}

// java reports whether a contender is a library for Java.
func (c contender) java() bool { return c.open == nil }

// javaFolder is the folder of the child in Java.
const javaFolder = "proof/bench/java"

// javaCommand returns the command of a child in Java.
func javaCommand() (*exec.Cmd, error) {
	program, err := java.Find(javaFolder)
	if err != nil {
		return nil, err
	}
	return program.Command("-Xmx256m"), nil
}

// javaVersions returns the versions of the libraries beside the child, and of Java.
func javaVersions(libraries []string) (list []string) {
	program, err := java.Find(javaFolder)
	if err != nil || len(libraries) == 0 {
		return nil
	}
	for _, library := range libraries {
		list = append(list, library+" "+program.Version(library))
	}
	if version := java.Version(); version != "" {
		list = append(list, "Java "+version)
	}
	return list
}
