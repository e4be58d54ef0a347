package consul

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/stilelock/stile/driver"
)

// unhashed are the fields that the hash leaves out, each with the reason.
var unhashed = map[string]string{
	"small.made":   "worlds may differ in the names of sessions",
	"small.queues": "a cache",

	"person.want": "never changes",
	"seat.folder": "never changes",
	"seat.record": "never changes",
	"seat.key":    "follows from the number of the claim",
	"seat.text":   "follows from the number of the claim",

	"queue.folder": "never changes",
	"entry.value":  "follows from the text of the key's value",
	"entry.id":     "follows from the key",

	"op.Namespace": "is empty before the agent sends the operation",
	"op.about":     "nobody reads a late answer",

	"conflict.indexes": "no goal reads it",

	// Of its last move, a goal reads only out and exclusive.
	"move.ops": "not read", "move.end": "not read", "move.why": "not read", "move.place": "not read", "move.wait": "not read",
	"move.index": "not read", "move.spoils": "not read", "move.delayed": "not read",
}

// TestHashHasEveryField changes each field of a world. If the hash stays the same, the walk takes two worlds for one, and
// does not visit the second.
func TestHashHasEveryField(t *testing.T) {
	t.Parallel()
	f := &fields{t: t, m: fullWorld(), met: map[string]bool{}}
	f.was = f.m.hash()
	f.all(reflect.ValueOf(f.m).Elem())
	for _, name := range slices.Sorted(maps.Keys(unhashed)) {
		if !f.met[name] {
			t.Errorf("there is no field %s", name)
		}
	}
}

// fields changes the fields of a world, each by its type and name.
type fields struct {
	t   testing.TB
	m   *small
	was [32]byte
	met map[string]bool
}

func (f *fields) all(of reflect.Value) {
	for i := range of.NumField() {
		field := of.Field(i)
		settable := reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem()
		f.vary(of.Type().Name()+"."+of.Type().Field(i).Name, settable)
	}
}

// vary changes a field, and goes on with its parts.
func (f *fields) vary(name string, field reflect.Value) {
	f.met[name] = true
	reason := unhashed[name]
	switch field.Kind() {
	case reflect.Struct:
		if reason == "" {
			f.all(field)
		}
		return
	case reflect.Pointer, reflect.Slice, reflect.Interface, reflect.Map:
		if field.IsZero() && reason == "" {
			f.t.Errorf("%s is empty, so nothing can be changed in it", name)
			return
		}
	}
	was := reflect.New(field.Type()).Elem()
	was.Set(field)
	switch field.Kind() {
	case reflect.Bool:
		field.SetBool(!was.Bool())
	case reflect.Int, reflect.Int64:
		field.SetInt(was.Int() + 100)
	case reflect.Uint8, reflect.Uint64:
		field.SetUint(was.Uint() + 100)
	case reflect.String:
		field.SetString(was.String() + "1")
	default:
		field.SetZero()
	}
	if changed := f.m.hash() != f.was; changed == (reason != "") {
		f.t.Errorf("%s: a change changes the hash: %v; the reason to leave the field out is %q", name, changed, reason)
	}
	field.Set(was)
	if reason == "" {
		f.parts(name, field)
	}
}

// parts goes on with what a pointer or a slice refers to.
func (f *fields) parts(name string, field reflect.Value) {
	switch field.Kind() {
	case reflect.Slice:
		f.element(name, field.Index(0))
	case reflect.Pointer:
		f.element(name, field.Elem())
	}
}

func (f *fields) element(name string, e reflect.Value) {
	switch {
	case e.Kind() == reflect.Pointer:
		f.parts(name, e)
	case e.Kind() != reflect.Struct:
		f.vary(name, e)
	case e.Type().PkgPath() == reflect.TypeFor[small]().PkgPath():
		f.all(e)
	}
}

// fullWorld returns a world in which nothing is empty. All sessions are the same, and each index is one of two.
func fullWorld() *small {
	at := func(key string) pair {
		return pair{Key: walkFolder + key, Value: []byte("{}"), Session: "s1", CreateIndex: 5, ModifyIndex: 6}
	}
	own, dead, lockKey, alone := at("c0-0"), at("c1-0"), at(lockKeyName), true
	return &small{
		keys: []pair{own}, index: 6, delayed: []string{walkLockKey}, over: []string{"s1"},
		late: [][]op{{{Verb: lock, Key: own.Key, Value: own.Value, Session: "s1", Index: 6}}},
		clients: []person{{
			seat:  seat{c: &driver.Claim{Ticket: 5}, session: "s1", heir: "s1"},
			q:     &queue{entries: []*entry{{pair: own}}, lockKey: &lockKey, dead: []*pair{&dead}},
			was:   &answer{of: move{exclusive: &alone}, bad: &conflict{about: map[part]bool{ownKey: true}, what: []string{"why"}}},
			wait:  &target{key: own.Key, index: 6},
			heirs: []string{"s1"},
		}},
	}
}
