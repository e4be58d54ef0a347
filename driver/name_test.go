package driver_test

import (
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
)

func TestCheckName(t *testing.T) {
	long := strings.Repeat("n", driver.MaxName)
	tests := []struct{ name, want string }{
		{"", "the name is empty"},
		{long + "n", "the name is 256 bytes long; the limit is 255"},
		{"\xff", "the name is not valid UTF-8 (byte 0xff at position 0)"},
		{"a\xc3", "the name is not valid UTF-8 (byte 0xc3 at position 1)"},
		{"a\xed\xa0\x80", "the name is not valid UTF-8 (byte 0xed at position 1)"},
		{"a\x00", "the name has control character U+0000 at position 1"},
		{"ab\n", "the name has control character U+000A at position 2"},
		{"\x7f", "the name has control character U+007F at position 0"},
		{"é\u0085", "the name has control character U+0085 at position 2"},
		{"a", ""},
		{long, ""},
		{" ", ""},
		{"..", ""},
		{"/a//b/", ""},
		{`{"a"}'%41`, ""},
		{"🔒\u200d🔑", ""},
		{"\ufffd", ""}, // the replacement character itself is a character
	}
	for _, test := range tests {
		got := ""
		if err := driver.CheckName(test.name); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("CheckName(%.40q) = %q, want %q", test.name, got, test.want)
		}
	}
}

func TestEncodeName(t *testing.T) {
	tests := []struct{ name, want string }{
		{"jobs-1_a.b", "jobs-1_a.b"},
		{"a/b", "a%2Fb"},
		{"%41", "%2541"},
		{"A", "A"},
		{"a", "a"},
		{".", "%2E"},
		{"..", "%2E%2E"},
		{"...", "..."},
		{"../a", "..%2Fa"},
		{"é", "%C3%A9"},
		{"{a}", "%7Ba%7D"},
		{"", ""},
	}
	for _, test := range tests {
		if got := driver.EncodeName(test.name); got != test.want {
			t.Errorf("EncodeName(%q) = %q, want %q", test.name, got, test.want)
		}
		if got, err := driver.DecodeName(test.want); got != test.name || err != nil {
			t.Errorf("DecodeName(%q) = %q, %v; want %q", test.want, got, err, test.name)
		}
	}
	for _, text := range []string{".", "..", "%", "%4", "%41", "%2f", "a/b", "%zz", "% 1", "%+A", "é", "%25%"} {
		if got, err := driver.DecodeName(text); err == nil {
			t.Errorf("DecodeName(%q) = %q, want an error", text, got)
		}
	}
}

// FuzzName checks that no two names are encoded alike: decoding a code returns its one name.
func FuzzName(f *testing.F) {
	for _, seed := range []string{"", "a", ".", "..", "%", "%41", "A", "a/b", "é", "\xff", "🔒", "a\x00b", "{}", "%2E"} {
		f.Add(seed, seed+"%")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		code := driver.EncodeName(a)
		if name, err := driver.DecodeName(code); name != a || err != nil {
			t.Errorf("%q is encoded as %q, which is decoded as %q, %v", a, code, name, err)
		}
		if code == "." || code == ".." || len(code) > 3*len(a) {
			t.Errorf("%q is encoded as %q", a, code)
		}
		for i := range len(code) {
			if c := code[i]; !strings.ContainsRune("-_.%", rune(c)) && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
				t.Errorf("%q is encoded as %q, with %q", a, code, c)
			}
		}
		if a != b && code == driver.EncodeName(b) {
			t.Errorf("%q and %q are both encoded as %q", a, b, code)
		}
		if name, err := driver.DecodeName(b); err == nil && driver.EncodeName(name) != b {
			t.Errorf("%q is decoded as %q, which is encoded as %q", b, name, driver.EncodeName(name))
		}
	})
}
