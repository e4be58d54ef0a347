package server

import "reflect"

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

// Schemas are the types of its answers, as its description calls them.
var Schemas = map[string]reflect.Type{
	"Grant": reflect.TypeFor[grant](), "Released": reflect.TypeFor[released](), "Queue": reflect.TypeFor[queue](),
	"Member": reflect.TypeFor[member](), "Failure": reflect.TypeFor[failure](),
}

// StoredID returns the id that a claim to a name has in the store, for a client's id, without credentials.
func StoredID(name, id string) string { return (&caller{}).id(name, id) }
