//go:build unix

package main

import (
	"fmt"
)

const clientCount = 100

// clients measures the memory and goroutines of a client that has used a lock.
func (b *bench) clients(among ...string) *measure {
	return &measure{
		key: "clients", title: "100 clients in one process", slow: true, each: b.settle,
		about: "Each has taken and released a lock of its own. Bytes are of the heap after a collection, beyond what the process had with one " +
			"such client; stacks are those of goroutines, beside that.",
		columns: []column{
			{"heap", "heap bytes/client", 0}, {"stack", "stack bytes/client", 0}, {"goroutines", "goroutines/client", 2},
		},
		rows: b.arena.among(b.clientsOne, among...),
	}
}

func (b *bench) clientsOne(c contender) (sample, error) {
	t := task{Role: "clients", Store: b.arena.key, Addr: b.addr, Contender: c.name, TTL: defaultTTL, Name: b.name(), Size: clientCount}
	if b.brief {
		t.Size = 10
	}
	return each(&t)
}

// clientsRole opens clients and reports their footprint.
func clientsRole(t *task, parent *lines) error {
	var before footprint
	for i := range t.Size + 1 {
		lib, err := t.open()
		if err != nil {
			return err
		}
		defer lib.close()
		if err := turns(lib.mutex(fmt.Sprintf("%s/%d", t.Name, i)), 1); err != nil {
			return err
		}
		if i == 0 { // without the part that only the first client makes
			before = measureFootprint()
		}
	}
	return parent.say(measureFootprint().per(t.Size, before))
}
