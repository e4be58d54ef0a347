package etcd

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
)

func TestValue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		c    driver.Claim
		want string
	}{
		{
			"exclusive", driver.Claim{ID: "i", Client: "c", Weight: driver.All, Capacity: driver.All},
			`{"stile":1,"capacity":0,"id":"i","client":"c"}`,
		},
		{
			"permits", driver.Claim{ID: "i", Weight: 2, Capacity: 5, Owner: "job/é"},
			`{"stile":1,"capacity":5,"id":"i","owner":"job/é","weight":2}`,
		},
		{
			"object", driver.Claim{ID: "i", Weight: 1, Capacity: driver.All, Record: `{"a":"<b>"}`},
			`{"stile":1,"capacity":0,"id":"i","weight":1,"record":{"a":"<b>"}}`,
		},
		{
			"text", driver.Claim{ID: "i", Weight: 1, Capacity: 1, Record: `{"a": 1}`},
			`{"stile":1,"capacity":1,"id":"i","weight":1,"record":"{\"a\": 1}"}`,
		},
		{
			"bytes", driver.Claim{ID: "i", Weight: 1, Capacity: 1, Record: "\xff\x00"},
			`{"stile":1,"capacity":1,"id":"i","weight":1,"record":["/wA="]}`,
		},
	} {
		v := valueOf(&test.c)
		v.Since = 0
		got, err := v.encode()
		if err != nil || got != test.want {
			t.Errorf("%s: %s, %v; want %s", test.name, got, err, test.want)
		}
		back, ok := decode([]byte(got))
		same := string(back.Record) == test.c.Record && string(back.Owner) == test.c.Owner &&
			back.Weight == test.c.Weight && back.Capacity == test.c.Capacity
		if !ok || !same {
			t.Errorf("%s: read back as %+v, %v", test.name, back, ok)
		}
	}
}

// TestEncodeHasEveryField fills every field of a value: encode writes the same JSON as package json.
func TestEncodeHasEveryField(t *testing.T) {
	t.Parallel()
	var v value
	for _, f := range reflect.ValueOf(&v).Elem().Fields() {
		switch f.Kind() {
		case reflect.String:
			f.SetString("a")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Uint64:
			f.SetUint(7)
		default:
			f.SetInt(7)
		}
	}
	want, err := json.Marshal(&v)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := v.encode(); err != nil || got != string(want) {
		t.Errorf("encode = %s, %v; package json writes %s", got, err, want)
	}
}

// FuzzEncode checks that encode writes the same JSON as package json.
func FuzzEncode(f *testing.F) {
	f.Add("id", "client", "job/é", `{"a":"<b>"}`, int64(1), int64(3), int64(0), false)
	f.Add("\x7f\u2028", "a\"b\\", "\xff", "\t<", int64(0), driver.All, int64(-1), true)
	f.Fuzz(func(t *testing.T, id, client, owner, record string, weight, capacity, since int64, left bool) {
		v := value{
			Stile: layout, Capacity: capacity, ID: id, Client: client, Owner: text(owner), Weight: weight, Left: left,
			Since: since, Record: text(record),
		}
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(v.short()); err != nil {
			t.Fatal(err)
		}
		if got, err := v.encode(); err != nil || got+"\n" != want.String() {
			t.Errorf("%+v is written as %s, %v; want %s", v, got, err, &want)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"", "null", "me", `{"stile":1,"id":"i"}`, `{"stile":2,"id":"i"}`, `{"stile":1,"id":"i","weight":3,"capacity":2}`,
		`{"stile":1,"id":"i","record":[]}`, `{"stile":1,"id":"i","record":["!"]}`, `{"stile":1,"id":"i","record":{"a":[]}}`,
	} {
		f.Add([]byte(seed), "record")
	}
	f.Fuzz(func(t *testing.T, b []byte, record string) {
		if v, ok := decode(b); ok && (v.ID == "" || v.Weight < 1 || v.Weight > v.Capacity || v.Capacity > driver.All) {
			t.Errorf("%q is read as %+v", b, v)
		}
		c := driver.Claim{ID: "i", Weight: 1, Capacity: 2, Owner: record, Record: record}
		text, err := valueOf(&c).encode()
		if err != nil || strings.ContainsAny(text, "\n") {
			t.Fatalf("%q is written as %q, %v", record, text, err)
		}
		if v, ok := decode([]byte(text)); !ok || string(v.Record) != record || string(v.Owner) != record {
			t.Errorf("%q is read back as %+v, %v", record, v, ok)
		}
	})
}

func TestLeaseIn(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]int64{
		"stile/name/694d81": 0x694d81, "name/1": 1, "name/0": 0, "name/01": 0, "name/AB": 0, "name/": 0, "name/x": 0,
		"name/-1": 0, "name/7fffffffffffffff": 1<<63 - 1, "name/8000000000000000": 0, "7": 7,
	} {
		if got, ok := leaseIn(key); ok != (want != 0) || ok && got != want {
			t.Errorf("leaseIn(%q) = %x, %v; want %x", key, got, ok, want)
		}
	}
}
