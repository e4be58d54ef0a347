package etcd

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/stilelock/stile/driver"
)

// unhashed are the fields that the hash leaves out, each with the reason.
var unhashed = map[string]string{
	"small.made":   "worlds may differ in the numbers of leases",
	"small.from":   "the way to a world",
	"small.did":    "the way to a world",
	"small.values": "a cache",

	"person.want": "never changes",
	"person.me":   "never changes",
	"seat.folder": "never changes",
	"seat.most":   "never changes",
	"seat.text":   "follows from the claim, and from the term of its lease",

	"value.Stile":    "never changes",
	"value.Capacity": "never changes",
	"value.Client":   "follows from the id",
	"value.Owner":    "follows from the id",
	"value.Since":    "never changes",
	"value.Record":   "changes together with the weight",

	"view.head":     "never changes",
	"txn.otherwise": "nobody reads a late answer",
	"txn.together":  "a batch applies the same transaction",

	// Of its last move, a goal reads only whether it has a transaction and a reason, its change, and after.
	"move.modified": "not read", "move.next": "not read", "move.many": "not read", "move.wants": "not read",
	"move.keeps": "not read", "move.reads": "not read", "move.end": "not read", "move.place": "not read", "move.at": "not read",
}

// TestHashHasEveryField changes each field of a world. If the hash stays the same, the walk takes two worlds for one, and
// does not visit the second.
func TestHashHasEveryField(t *testing.T) {
	t.Parallel()
	f := &fields{t: t, m: fullWorld(), shown: map[string]bool{}}
	f.was = f.m.hash()
	f.all(reflect.ValueOf(f.m).Elem())
	for _, name := range slices.Sorted(maps.Keys(f.shown)) {
		if reason := unhashed[name]; f.shown[name] == (reason != "") {
			t.Errorf("%s: a change changes the hash: %v; the reason to leave the field out is %q", name, f.shown[name], reason)
		}
	}
	for name := range unhashed {
		if _, met := f.shown[name]; !met {
			t.Errorf("there is no field %s", name)
		}
	}
}

// fields are the fields of a world, by type and name, and whether the hash shows a change of each.
type fields struct {
	t     testing.TB
	m     *small
	was   string
	shown map[string]bool
}

func (f *fields) all(of reflect.Value) {
	for i := range of.NumField() {
		field := of.Field(i)
		settable := reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem()
		f.vary(of.Type().Name()+"."+of.Type().Field(i).Name, settable)
	}
}

// vary changes a field in each way, and goes on with its parts.
func (f *fields) vary(name string, field reflect.Value) {
	if unhashed[name] != "" {
		f.shown[name] = false
		return
	}
	switch field.Kind() {
	case reflect.Struct:
		f.all(field)
		return
	case reflect.Pointer, reflect.Slice, reflect.Interface, reflect.Map:
		if field.IsZero() {
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
	f.shown[name] = f.shown[name] || f.m.hash() != f.was
	field.Set(was)
	switch {
	case field.Kind() == reflect.Pointer && field.Type().Elem().PkgPath() == reflect.TypeFor[small]().PkgPath():
		f.all(field.Elem())
	case field.Kind() == reflect.Slice:
		f.vary(name, field.Index(0))
	}
}

// fullWorld returns a world in which nothing is empty.
func fullWorld() *small {
	e := entry{value: value{ID: "a", Weight: 1, Lease: "1"}, key: "n/1", created: 5, modified: 6, lease: 1}
	t := &txn{
		conditions: []condition{{isUnchanged, "n/1", 6}},
		then:       []op{{verb: opPut, key: "n/1", text: `{"stile":1,"id":"a"}`, lease: 1}},
		otherwise:  []op{{verb: opGet}},
	}
	both := hold{grant{1, 1}, grant{1, 1}}
	call := attending{
		v:       &view{q: queue{e}, seen: 6, term: 1},
		was:     &answer{of: move{txn: t, next: &e, why: errors.New("e")}},
		pending: both,
	}
	p := person{
		want: &wish{},
		seat: seat{
			c: &driver.Claim{Ticket: 5}, key: "n/1", created: 5, modified: 6, has: both, alive: both, hand: both,
		},
		attending: call, aside: &besides{attending: call, alive: both, hand: both},
		pool: []int64{1}, open: []int64{1}, heirs: []int64{1},
	}
	m := &small{values: map[string]value{}, keys: []entry{e}, rev: 6, leases: []modelLease{{id: 1}}}
	m.late, m.ending, m.clients, m.from = []request{{0, *t}}, []int64{1}, []person{p}, &small{}
	return m
}
