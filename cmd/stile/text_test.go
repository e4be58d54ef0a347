package main

import (
	"errors"
	"strings"
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
		if got := oneLine(tt.text); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestKeepSecret(t *testing.T) {
	defer func() { secrets = nil }()
	keepSecret("", "abc", "s3cret!", "s3cret%21")
	if got, want := oneLine("abc s3cret! and s3cret%21"), "abc … and …"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestQuoted(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"a/b.c:1@x", "a/b.c:1@x"}, {"a b", "'a b'"}, {"it's", `'it'\''s'`}, {"$x", "'$x'"}, {"", "''"}, {"-x", "'-x'"}, {"ü", "'ü'"},
	} {
		if got := quoted(tt.text); got != tt.want {
			t.Errorf("%q: got %s, want %s", tt.text, got, tt.want)
		}
	}
}

func TestRawPassword(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"redis://u:p%40@h", "p%40"}, {"redis://:p@h/x@y", "p"}, {"redis://h", ""}, {"redis://u@h", ""}, {"u:p@h", ""}, {"redis://u:a@b@h", "a@b"},
	} {
		if got := rawPassword(tt.url); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.url, got, tt.want)
		}
	}
}

func TestExitCodeSaysNothing(t *testing.T) {
	var b strings.Builder
	if got := exitCode(&b, withStatus(3, nil)); got != 3 || b.String() != "" {
		t.Errorf("%d, %q", got, &b)
	}
	if got := exitCode(&b, errors.Join(&interrupted{2}, nil)); got != 130 || b.String() != "" {
		t.Errorf("%d, %q", got, &b)
	}
}
