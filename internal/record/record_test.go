package record

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stilelock/stile/driver"
)

// A reader sees of a waiter's other claims only those on names that it may know, and of all else what was written.
func TestReadable(t *testing.T) {
	const within = `{"program":"x","within":"7 a/1\n8 b/1\n9 a/2"}`
	for _, tt := range []struct{ text, prefix, want string }{
		{within, "", within},
		{within, "a/", `{"program":"x","within":"7 a/1\n9 a/2"}`},
		{within, "c", `{"program":"x"}`},
		{Within(`{"program":"x"}`, []Held{{"b", 7}}), "c", `{"program":"x"}`},
		{`{"program":"x"}`, "c", `{"program":"x"}`},
		{`{"within":7}`, "c", `{"within":7}`},
		{`x "within":`, "c", `x "within":`},
		{"", "c", ""},
	} {
		if got := Readable(tt.text, func(name string) bool { return strings.HasPrefix(name, tt.prefix) }); got != tt.want {
			t.Errorf("%s for a reader of %q is %s; want %s", tt.text, tt.prefix, got, tt.want)
		}
	}
}

// A record is kept as it was given, or it is refused.
func TestWrite(t *testing.T) {
	for _, tt := range []struct{ owner, reason, value, want string }{
		{"nightly", "figures", "host:80", ""},
		{"\x00\"\\\u2028", "世", "\ufffd", ""},
		{"a\xff", "", "", `the owner "a\xff" is not valid UTF-8`},
		{"", "\xc3", "", `the reason "\xc3" is not valid UTF-8`},
		{"", "", "\xed\xa0\x80", `the value "\xed\xa0\x80" is not valid UTF-8`},
		{"", strings.Repeat("x", driver.MaxRecord), "", "owner, reason and value take"},
	} {
		text, err := Write(tt.owner, tt.reason, tt.value, 0)
		if tt.want != "" {
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			continue
		}
		if h := Read(text); err != nil || h.Owner != tt.owner || h.Reason != tt.reason || h.Value != tt.value {
			t.Errorf("%q: reads as %+v, %v", text, h, err)
		}
	}
	if _, err := Change("", "\xff"); err == nil {
		t.Error("a value that is not UTF-8 replaces another")
	}
}

// The names that nobody chose are made fit.
func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"stile":                   "stile",
		"a\xffb":                  "a\ufffdb",
		"a\nb\x1b[0m":             "a\ufffdb\ufffd[0m",
		strings.Repeat("x", 300):  strings.Repeat("x", mostName),
		strings.Repeat("é", 200):  strings.Repeat("é", mostName/2),
		strings.Repeat("\n", 200): strings.Repeat("\ufffd", mostName/3),
	} {
		if got := clean(text); got != want || !utf8.ValidString(got) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
