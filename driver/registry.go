package driver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/stilelock/stile/internal/nearest"
)

// An Opener opens the store at an address.
type Opener func(ctx context.Context, a *Address) (Driver, error)

var registry struct {
	sync.Mutex
	openers map[string]Opener
}

// Register makes a store available under a URL scheme. A driver's package calls it from init. It panics if the scheme
// is taken.
func Register(scheme string, open Opener) {
	registry.Lock()
	defer registry.Unlock()
	if _, taken := registry.openers[scheme]; taken {
		panic("stile: scheme " + scheme + " is registered twice")
	}
	if registry.openers == nil {
		registry.openers = map[string]Opener{}
	}
	registry.openers[scheme] = open
}

// Open opens the store at a URL by the opener of its scheme.
func Open(ctx context.Context, rawURL string) (Driver, error) {
	a, err := ParseAddress(rawURL)
	if err != nil {
		return nil, Refused(err)
	}
	registry.Lock()
	open, known := registry.openers[a.Scheme]
	schemes := slices.Sorted(maps.Keys(registry.openers))
	registry.Unlock()
	switch missing := (&MissingError{a.Scheme}); {
	case known:
		return open(ctx, a)
	case missing.Package() != "":
		return nil, Refused(missing)
	}
	all := slices.Concat(schemes, slices.Sorted(maps.Keys(packages)))
	return nil, Refused(fmt.Errorf("unknown store %q%s; known: %s", a.Scheme, nearest.Hint(a.Scheme, all), strings.Join(schemes, ", ")))
}

// A MissingError says that the program does not import the package of one of stile's own stores.
type MissingError struct{ Scheme string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s:// needs a package that this program does not import: add import _ %q", e.Scheme, e.Package())
}

// Package returns the import path of the package.
func (e *MissingError) Package() string {
	if name, ok := packages[e.Scheme]; ok {
		return "github.com/stilelock/stile/store/" + name
	}
	return ""
}

// packages are the packages that register a scheme. The command imports all of them, and one of its tests checks that this
// list is whole.
var packages = map[string]string{
	"consul": "consul", "consuls": "consul",
	"etcd": "etcd", "etcds": "etcd",
	"memcached": "memcached",
	"memory":    "memory",
	"mysql":     "mysql", "mariadb": "mysql",
	"postgres": "postgres", "postgresql": "postgres",
	"redis": "redis", "redis+cluster": "redis", "redis+sentinel": "redis",
	"rediss": "redis", "rediss+cluster": "redis", "rediss+sentinel": "redis",
	"redlock": "redis", "redlocks": "redis", "tair": "redis", "tairs": "redis",
	"shard":  "shard",
	"sqlite": "sqlite",
	"stile":  "remote", "stiles": "remote",
	"zk": "zookeeper", "zks": "zookeeper",
}
