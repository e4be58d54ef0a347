package memcached

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// Values of earlier versions and of this one: the second at which the value ends is in different places.
const (
	earlierValue = `{"stile":1,"name":"n","until":60,"last":9,"capacity":1}`
	presentValue = `{"until":60,"stile":1,"name":"n","last":9,"capacity":1}`
)

func TestValues(t *testing.T) {
	t.Parallel()
	inner := `{"stile":1,"name":"n","last":9,"capacity":1}`
	if got := string(seal(60, []byte(inner))); got != presentValue {
		t.Errorf("the value is %s; want %s", got, presentValue)
	}
	for value, want := range map[string]struct {
		until      int64
		text, name string
	}{
		presentValue:              {60, inner, "n"},
		earlierValue:              {60, earlierValue, "n"},
		"theirs":                  {0, "theirs", ""},
		"":                        {0, "", ""},
		`{"until":`:               {0, `{"until":`, ""},
		`{"until":5}`:             {5, `{"until":5}`, ""},
		`{"until":x,"name":"n"}`:  {0, `{"until":x,"name":"n"}`, ""},
		`{"until":-1,"name":"n"}`: {-1, `{"name":"n"}`, "n"},
	} {
		if got := nameIn([]byte(value)); got != want.name {
			t.Errorf("%s is of the name %q; want %q", value, got, want.name)
		}
		until, text := unseal([]byte(value))
		if until != want.until || string(text) != want.text {
			t.Errorf("%s is %d, %s; want %d, %s", value, until, text, want.until, want.text)
		}
	}
}

func FuzzUnseal(f *testing.F) {
	for _, text := range []string{earlierValue, presentValue, "theirs", `{"until":1`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		was := string(data)
		until, text := unseal([]byte(was))
		if string(text) == was {
			return
		}
		if again, same := unseal(seal(until, text)); again != until || string(same) != string(text) {
			t.Errorf("%q is %d, %q, and that sealed is %d, %q", was, until, text, again, same)
		}
	})
}

func TestVersions(t *testing.T) {
	t.Parallel()
	want := version{conn: 3, cas: 1<<64 - 1, until: 1795253895}
	if got := parseVersion(want.text()); got != want {
		t.Errorf("%s is %+v; want %+v", want.text(), got, want)
	}
	if got := parseVersion(""); got != (version{}) {
		t.Errorf("no version is %+v", got)
	}
}

// A claim that an earlier version of stile has entered is found, renewed, and removed.
func TestEarlierValue(t *testing.T) {
	t.Parallel()
	s := servertest.Memcached(t)
	d := open(t, s.Addr, "")
	now := int64(counters(s)["time"])
	value := string(earlier(now))
	s.Memcached("set stile/name 0 %d %d\r\n%s\r\n", now+160, len(value), value)
	held := claim("name", "held")
	held.Ticket = 7
	p := waits(t, d, claim("name", "next"))
	if p.Ahead != 1 || p.Blocker.Ticket != 7 || p.Blocker.Record != held.Record || p.Ticket <= 7 {
		t.Errorf("enter = %+v; want it behind ticket 7", p)
	}
	if err := renew(t, d, held); err != nil {
		t.Errorf("renewal = %v", err)
	}
	if err := leave(t, d, held); err != nil {
		t.Errorf("leave = %v", err)
	}
	if err := renew(t, d, held); !errors.Is(err, driver.ErrGone) {
		t.Errorf("renewal after it left = %v; want ErrGone", err)
	}
}

// earlier returns a value in the form of earlier versions, with a claim that holds.
func earlier(now int64) []byte {
	return fmt.Appendf(nil, `{"stile":1,"name":"name","until":%d,"last":7,"capacity":%d,"claims":[{"id":"held",`+
		`"client":"client of held","ticket":7,"weight":%d,"since":%d,"ends":%d,"told":true,"record":"record of held"}]}`,
		now+160, driver.All, driver.All, now*1e6, (now+100)*1e6)
}
