package model

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"
)

// measured has the records of one machine, from which docs/evidence/scaling.md is computed.
//
//go:embed testdata/*.json
var measured embed.FS

// A Store is one kind of server: its name, cores and limits, beside the records.
type Store struct {
	Key, Name string
	Limits    Limits
	Cores     int // how many cores one server can use
}

const (
	gigabyte = 1e9
	gigabit  = 1e9 / 8
)

// Stores are the measured stores. Their limits are the limits of a server that one might rent for this: half of its
// processor and of a network of a gigabit per second, 16 GB of memory, a disk that syncs 2,000 times a second, and as many
// connections as people usually allow. For SQLite it is the machine of all processes, without connections.
var Stores = []Store{
	{"redis", "Redis", limits(1, 50_000), 1},
	{"redlock", "Redlock, each of three", limits(1, 50_000), 1},
	{"memcached", "memcached", limits(4, 50_000), 4},
	{"etcd", "etcd", limits(8, 20_000), 8},
	{"zookeeper", "ZooKeeper", limits(8, 20_000), 8},
	{"consul", "Consul", limits(8, 20_000), 8},
	{"postgres", "PostgreSQL", limits(8, 1000), 8},
	{"mysql", "MySQL", limits(8, 1000), 8},
	{"mariadb", "MariaDB", limits(8, 1000), 8},
	{"sqlite", "SQLite", limits(8, 1), 8},
}

func limits(cores int, connections float64) Limits {
	return Limits{CPU: float64(cores) / 2, Connections: connections, Memory: 16 * gigabyte, Network: gigabit / 2, Syncs: 2000}
}

// StoreOf returns the store with a key.
func StoreOf(key string) (*Store, error) {
	var keys []string
	for i := range Stores {
		if Stores[i].Key == key {
			return &Stores[i], nil
		}
		keys = append(keys, Stores[i].Key)
	}
	return nil, fmt.Errorf("no store is called %q; measured are %s", key, strings.Join(keys, ", "))
}

// Record returns the store's record.
func (s *Store) Record() (*Record, error) {
	text, err := measured.ReadFile("testdata/" + s.Key + ".json")
	if err != nil {
		return nil, fmt.Errorf("nothing was measured on %s: %w", s.Key, err)
	}
	return Parse(text)
}

// Parse reads a record.
func Parse(text []byte) (*Record, error) {
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("measurements: %w", err)
	}
	for _, p := range []*Parts{&r.Few, &r.Many} {
		if p.Clients < 1 || p.Rate <= 0 || p.CalmRate <= 0 || len(r.Fleets) == 0 {
			return nil, fmt.Errorf("measurements of %q: no parts or no fleets", r.Store)
		}
	}
	return &r, nil
}
