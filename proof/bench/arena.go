//go:build unix

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// An arena is a kind of server and the libraries that are measured on it.
type arena struct {
	key        string // the value of -store
	page       string // the file of its page
	title      string // of the page; "" means the server's name
	server     string // the kind of server, as in "one real Redis server"
	servers    string // how many servers, in a word; "" means one
	conditions string // how the server is set up
	serverless bool   // not a server but something on this machine
	start      func(t servertest.TB) *servertest.Server
	others     func(t servertest.TB) []string // starts further servers; nil means none
	counted    int                            // how many of the further servers are counted too
	version    func(s *servertest.Server) string
	count      func(s *servertest.Server) (counts, error)
	lag        time.Duration // how late the server's counters may be
	contenders []contender
	peers      []string // modules whose versions matter
	libraries  []string // the same for Java
	note       string   // what else readers should know about the libraries

	uncontended []string // contenders where nobody else wants the lock
	bare        []string // programs without a lock; also in the contended measures where one process waits for another
	contended   []string // contenders for one hot name, ours first
	measures    func(b *bench) []*measure
	targets     []target
}

var arenas = []*arena{redisArena, setNXArena, redlockArena, memcachedArena, etcdArena, zooKeeperArena, consulArena, postgresArena, mysqlArena, sqliteArena}

// allArenas returns all arenas, also those for libraries in Java.
func allArenas() []*arena { return slices.Concat(arenas, jvmArenas) }

// arenaOf returns the arena with a key.
func arenaOf(key string) (*arena, error) {
	var keys []string
	for _, a := range allArenas() {
		if a.key == key {
			return a, nil
		}
		keys = append(keys, a.key)
	}
	return nil, fmt.Errorf("no store is called %q; there are %s", key, strings.Join(keys, ", "))
}

// outFlag returns the flag that writes the page, for a run in the folder proof/bench.
func (a *arena) outFlag() string { return " -out ../../" + a.page }

// name returns the name of the server, or of the file, for people.
func (a *arena) name() string {
	return strings.TrimSuffix(strings.TrimSuffix(a.server, " server"), " file")
}

// beside returns the libraries that stile is compared with, for a sentence.
func (a *arena) beside() string {
	if len(a.libraries) > 0 {
		return "a lock library for Java"
	}
	return "other lock libraries for Go"
}

// heading returns the title of the page.
func (a *arena) heading() string {
	if a.title != "" {
		return a.title
	}
	return a.name()
}

// setting returns the number of servers and their kind, as in "one real Redis server".
func (a *arena) setting(word, kind string) string {
	if a.servers == "" {
		return "one " + word + kind
	}
	return a.servers + " " + word + kind + "s"
}

// find returns the contender with a name.
func (a *arena) find(name string) contender {
	i := slices.IndexFunc(a.contenders, func(c contender) bool { return c.name == name })
	if i < 0 {
		panic("no contender is called " + name)
	}
	return a.contenders[i]
}

// alone returns the contenders where nobody else wants the lock, and the programs without a lock.
func (a *arena) alone() []string { return slices.Concat(a.uncontended, a.bare) }

// among makes a row for each of some contenders.
func (a *arena) among(run func(contender) (sample, error), names ...string) []*row {
	var rows []*row
	for _, name := range names {
		c := a.find(name)
		rows = append(rows, &row{name: name, run: func() (sample, error) { return run(c) }})
	}
	return rows
}
