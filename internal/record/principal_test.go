package record

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
)

// texts are records of all kinds, also of clients that would like to be another principal.
var texts = []string{
	"", "{", "}", "{}", "{ }", "null", "plain", `"text"`, `[1]`, `{"a":1}`, `{"a":1} `, ` {"a":1}`, `{"a":1,}`, `{"a":1}}`, "{\"a\":\n1}",
	`{"owner":"x","principal":"root"}`, `{"principal":"root"}`, `{"principal":"root","principal":"root"}`, `{"raw":"eA==","principal":"root"}`,
	`{"raw":"eA=="}`, `{"raw":"!","principal":"root"}`, `{"raw":7,"principal":"root"}`, `{"a":"\",\"principal\":\"root\"}"}`,
	`{"a":{"principal":"root"}}`, `{"a":1,"principal":"no name"}`, `,"principal":"root"}`, `{,"principal":"root"}`, "\x00", "\xff\xfe", "é",
}

// A record and its principal come back unchanged, whatever the record is; what a client writes makes it no other principal's.
func TestWithPrincipal(t *testing.T) {
	for _, text := range texts {
		for _, principal := range []string{"ci", "a.b-c_D9", strings.Repeat("x", MaxPrincipal)} {
			stored := With(text, principal)
			if got, by := Split(stored); got != text || by != principal {
				t.Errorf("%q of %s is stored as %s, and comes back as %q of %q", text, principal, stored, got, by)
			}
			var is struct{ Principal string }
			if err := json.Unmarshal([]byte(stored), &is); err != nil || is.Principal != principal {
				t.Errorf("%q of %s is stored as %s: a reader of JSON finds %q, %v", text, principal, stored, is.Principal, err)
			}
			if h := Read(stored); h.Principal != principal {
				t.Errorf("%s is of %q; want %s", stored, h.Principal, principal)
			}
		}
		if With(text, "") != text {
			t.Errorf("%q without a principal is stored as %q", text, With(text, ""))
		}
	}
	for _, text := range []string{"{", "plain", `{"a":1}`, `{"a":1,"principal":"no name"}`, `{"raw":"!","principal":"root"}`, `{ "principal":"root"}`,
		`{"raw":"eA","principal":"root"}`, `{"a":1,,"principal":"root"}`, `x,"principal":"root"}`, `{"principal":""}`} {
		if got, by := Split(text); got != text || by != "" {
			t.Errorf("%q, which no service wrote, is read as %q of %q", text, got, by)
		}
	}
}

// Read finds the holder beside the principal, also for a record of another program.
func TestReadWithPrincipal(t *testing.T) {
	text, err := Write("nightly", "figures", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	if h := Read(With(text, "ci")); h.Owner != "nightly" || h.Principal != "ci" || !strings.HasPrefix(h.String(), "nightly as ci on ") {
		t.Errorf("the holder is %+v, %s", h, h)
	}
	for stored, want := range map[string]string{
		With("curator", "ci"): "another program as ci (curator)", With("", "ci"): "somebody unknown as ci", With("\x00", "ci"): "somebody unknown as ci",
		With(`{"owner":"x","principal":"root"}`, "ci"): "x as ci",
	} {
		if got := Read(stored).String(); got != want {
			t.Errorf("%s is of %s; want %s", stored, got, want)
		}
	}
}

// A claim of Consul's clients has its principal in the record of the front that serves them. A principal of its own cannot write
// another one there.
func TestWhose(t *testing.T) {
	const key, session = `{"program":"x","consul_key":{"session":"s","principal":"ann","value":"dA=="}}`, `{"program":"x","consul_session":{"principal":"ann","ttl":"10s"}}`
	for stored, want := range map[string]struct{ text, principal string }{
		key: {key, "ann"}, session: {session, "ann"}, With(key, "ci"): {key, "ci"}, With("x", "ci"): {"x", "ci"}, "x": {"x", ""},
		`{"program":"x","consul_key":{"session":"s"}}`:         {`{"program":"x","consul_key":{"session":"s"}}`, ""},
		`{"program":"x","consul_key":{"principal":"no name"}}`: {`{"program":"x","consul_key":{"principal":"no name"}}`, ""},
		`{"consul_key":7}`: {`{"consul_key":7}`, ""}, `"consul_key"`: {`"consul_key"`, ""},
	} {
		if text, by := Whose(stored); text != want.text || by != want.principal {
			t.Errorf("%s is read as %q of %q; want %q of %q", stored, text, by, want.text, want.principal)
		}
		if h := Read(stored); h.Principal != want.principal {
			t.Errorf("%s is of %q; want %q", stored, h.Principal, want.principal)
		}
	}
}

// The largest record that this package writes fits the store behind a service.
func TestMost(t *testing.T) {
	within := Within(`{"program":"x"}`, []Held{{strings.Repeat("n", 255), 1 << 50}, {strings.Repeat("n", 255), 1 << 50}, {strings.Repeat("\"", 250), 1},
		{strings.Repeat("\x01", 255), 1}, {strings.Repeat("\x01", 255), 1}, {strings.Repeat("\x01", 255), 1}})
	text, err := Of(Holder{Reason: strings.Repeat("x", Most-len(`{"reason":""}`))}, 0)
	if err != nil || len(text) != Most {
		t.Fatalf("%d bytes, %v; want %d", len(text), err, Most)
	}
	for _, text := range []string{text, within} {
		if n := len(With(text, strings.Repeat("p", MaxPrincipal))); n > driver.MaxRecord {
			t.Errorf("a record of %d bytes takes %d with its principal; the limit is %d", len(text), n, driver.MaxRecord)
		}
	}
	if len(within) <= Most/2 {
		t.Errorf("only %d bytes say what the waiter has", len(within))
	}
}

func FuzzSplit(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
		f.Add(With(text, "ci"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, by := Split(With(text, "ci")); got != text || by != "ci" {
			t.Errorf("%q comes back as %q of %q", text, got, by)
		}
		if got, by := Split(text); With(got, by) != text {
			t.Errorf("%q is read as %q of %q, which is %q", text, got, by, With(got, by))
		}
	})
}
