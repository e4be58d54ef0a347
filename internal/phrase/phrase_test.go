package phrase

import (
	"testing"
)

func TestOneLine(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"plain", "plain"},
		{"two\nlines\n", "two; lines"},
		{"two\r\n  lines", "two; lines"},
		{"redis://user:pw@host:1/x", "redis://…@host:1/x"},
		{"of redis://:p@q@host", "of redis://…@host"},
		{"redis://host/a@b", "redis://host/a@b"},
		{"put it in the URL as redis://user:password@host", "put it in the URL as redis://user:password@host"},
		{"put one in the URL as consul://:token@host", "put one in the URL as consul://:token@host"},
		{"redis://user:password1@host", "redis://…@host"},
		{"x: stile: open: y", "x: open: y"},
		{"\x1b[2J \u202e \u0085 \u200b", `\x1b[2J \u202e \u0085 \u200b`},
		{"größe 🔒", "größe 🔒"},
	} {
		if got := OneLine(tt.text); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestKeepSecret(t *testing.T) {
	defer func() { secrets = nil }()
	KeepSecret("", "abc", "s3cret!", "s3cret%21")
	if got, want := OneLine("abc s3cret! and s3cret%21"), "abc … and …"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestQuoted(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"a/b.c:1@x", "a/b.c:1@x"}, {"a b", "'a b'"}, {"it's", `'it'\''s'`}, {"$x", "'$x'"}, {"", "''"}, {"-x", "'-x'"}, {"ü", "'ü'"},
	} {
		if got := Quoted(tt.text); got != tt.want {
			t.Errorf("%q: got %s, want %s", tt.text, got, tt.want)
		}
	}
}
