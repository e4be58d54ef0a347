// Package hashtest tests the hash by which a walk over all worlds of a small model recognises a world that it has visited.
package hashtest

import (
	"maps"
	"reflect"
	"slices"
	"testing"
)

// EveryField changes each field of a world, and compares the hashes before and after. If the hash stays the same, a walk takes
// two worlds for one, and does not visit the second. World is a pointer to a struct in which nothing is empty, and hash returns
// its hash. Unhashed are the fields that the hash leaves out, as TYPE.FIELD, each with the reason: their changes keep the hash.
// TYPE.FIELD.* are the parts of a field of which the hash has only whether it is there; these are not changed. Structs of other
// packages are not entered behind pointers and in slices, and of a slice only the first element is changed.
func EveryField(t testing.TB, world any, hash func() string, unhashed map[string]string) {
	t.Helper()
	of := reflect.ValueOf(world).Elem()
	f := &fields{t: t, home: of.Type().PkgPath(), hash: hash, was: hash(), unhashed: unhashed, met: map[string]bool{}}
	f.all(of)
	for _, name := range slices.Sorted(maps.Keys(unhashed)) {
		if !f.met[name] {
			t.Errorf("there is no field %s", name)
		}
	}
}

// fields changes the fields of a world, each by its type and name.
type fields struct {
	t        testing.TB
	home     string // the package of the world
	hash     func() string
	was      string
	unhashed map[string]string
	met      map[string]bool
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
	reason := f.unhashed[name]
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
	case reflect.Map:
		field.Set(reflect.MakeMap(field.Type()))
	default:
		field.SetZero()
	}
	if changed := f.hash() != f.was; changed == (reason != "") {
		f.t.Errorf("%s: a change changes the hash: %v; the reason to leave the field out is %q", name, changed, reason)
	}
	field.Set(was)
	if within := name + ".*"; f.unhashed[within] != "" {
		f.met[within] = true
	} else if reason == "" {
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
	case e.Type().PkgPath() == f.home:
		f.all(e)
	}
}
