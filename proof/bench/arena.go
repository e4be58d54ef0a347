//go:build unix

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// An arena is a kind of server, with the libraries that are measured on it.
type arena struct {
	key        string // of the flag -store
	page       string // where its figures are kept
	title      string // of the page; "" means the server's name
	server     string // what it is, as in "one real Redis server"
	servers    string // how many there are, in a word; "" means one
	conditions string // how it runs
	serverless bool   // it is no server but something on this machine
	start      func(t servertest.TB) *servertest.Server
	others     func(t servertest.TB) []string // starts further servers; nil means there are none
	counted    int                            // how many of those count too
	version    func(s *servertest.Server) string
	count      func(s *servertest.Server) (counts, error)
	lag        time.Duration // how late the server may count
	contenders []contender
	peers      []string // modules whose versions matter
	libraries  []string // the same for Java
	note       string   // what else a reader should know about the libraries

	uncontended []string // contenders where nobody else wants the lock
	bare        []string // what is no lock, beside those, and beside the contended ones where one waits for another
	contended   []string // contenders for one hot name, ours first
	measures    func(b *bench) []*measure
	targets     []target
}

var arenas = []*arena{redisArena, setNXArena, redlockArena, memcachedArena, etcdArena, zooKeeperArena, consulArena, postgresArena, mysqlArena, sqliteArena}

// allArenas has those too where libraries for Java are measured.
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

// outFlag is the flag that writes the page, in the folder proof/bench.
func (a *arena) outFlag() string { return " -out ../../" + a.page }

// name is what people call the server, or the file.
func (a *arena) name() string {
	return strings.TrimSuffix(strings.TrimSuffix(a.server, " server"), " file")
}

// beside is what stile is measured beside.
func (a *arena) beside() string {
	if len(a.libraries) > 0 {
		return "a lock library for Java"
	}
	return "other lock libraries for Go"
}

// heading is what the page is about.
func (a *arena) heading() string {
	if a.title != "" {
		return a.title
	}
	return a.name()
}

// setting is how many servers there are, with a word before the kind, as in "one real Redis server".
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

// alone are the contenders where nobody else wants the lock, and what is no lock.
func (a *arena) alone() []string { return slices.Concat(a.uncontended, a.bare) }

// among makes a row of each of some contenders.
func (a *arena) among(run func(contender) (sample, error), names ...string) []*row {
	var rows []*row
	for _, name := range names {
		c := a.find(name)
		rows = append(rows, &row{name: name, run: func() (sample, error) { return run(c) }})
	}
	return rows
}
