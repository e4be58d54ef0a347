package server

import (
	"reflect"
	"strings"

	"github.com/stilelock/stile/driver"
)

// LockParameters are the methods of the simple API, with their parameters beside the name.
func LockParameters() map[string][]string {
	all := map[string][]string{}
	for method, call := range lockCalls {
		all[method] = call.parameters
	}
	return all
}

// MaxLists is the most lists at a time.
const MaxLists = maxLists

// MaxLooks is the most queues of one name that are read at a time.
const MaxLooks = maxLooks

// MaxCalls is the most calls of batches at a time.
const MaxCalls = maxCalls

// Principals returns how many principals a server has counts of.
func Principals(s *Server) int {
	s.limits.mu.Lock()
	defer s.limits.mu.Unlock()
	return len(s.limits.of)
}

// Schemas are the types of all bodies, and of what is in them, as the description calls them.
func Schemas() map[string]reflect.Type {
	all := map[string]reflect.Type{}
	var add func(reflect.Type)
	add = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice:
			add(t.Elem())
		case reflect.Struct:
			all[SchemaOf(t)] = t
			for f := range t.Fields() {
				add(f.Type)
			}
		}
	}
	for _, call := range lockCalls {
		add(call.gives)
	}
	add(reflect.TypeFor[failure]())
	for _, call := range contractCalls {
		if call.takes.kind != "" {
			add(call.takes.of)
		}
		add(call.gives.of)
	}
	return all
}

// SchemaOf returns how the description calls a type.
func SchemaOf(t reflect.Type) string { return strings.ToUpper(t.Name()[:1]) + t.Name()[1:] }

// Gives returns how the description calls the answer to a method of the simple API.
func Gives(method string) string { return SchemaOf(lockCalls[method].gives) }

// StoredID returns the id that a claim to a name has in the store, for a client's id, without credentials.
func StoredID(name, id string) string { return (&caller{}).id(name, id) }

// StoredPut is StoredID for an exclusive claim of the simple API.
func StoredPut(name, id string) string {
	return StoredID(name, (&handle{id: id, weight: driver.All, capacity: driver.All}).claimID())
}
