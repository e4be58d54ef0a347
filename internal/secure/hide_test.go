package secure_test

import (
	"testing"

	"github.com/stilelock/stile/internal/secure"
)

// A secret is left out where it stands as one, and words that are like it stay.
func TestHide(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, secret, want string }{
		{"the server does not answer", "", "the server does not answer"},
		{"the server does not answer", "e", "the server does not answer"},
		{"i/o timeout: redis at h:6379", "timeout", "i/o timeout: redis at h:6379"},
		{`user "a" of redis://u:a@h/0: a user`, "a", `user "a" of redis://u:…@h/0: a user`},
		{`password=a user=a, PWD='a'`, "a", `password=… user=a, PWD='…'`},
		{"password=abc", "a", "password=abc"},
		{`unknown word "hunter": hunter`, "hunter", `unknown word "…": hunter`},
		{"got `hunter', 'hunter' and hunter'", "hunter", "got `hunter', '…' and hunter'"},
		{"with hunter2hunter2inside", "hunter2", "with ……inside"},
		{"key 1838471670711533568, pin 4711", "4711", "key 1838471670711533568, pin 4711"},
		{"token 6d1e-44", "6d1e-44", "token …"},
		{"a number 12345678", "12345678", "a number …"},
		{"aaaa", "a", "aaaa"},
		{":a@:a@", "a", ":…@:…@"},
	} {
		if got := secure.Hide(tt.text, tt.secret); got != tt.want {
			t.Errorf("Hide(%q, %q) = %q; want %q", tt.text, tt.secret, got, tt.want)
		}
	}
	if got, want := secure.Hide("x:one@h y:two@h", "one", "two"), "x:…@h y:…@h"; got != want {
		t.Errorf("two secrets: %q; want %q", got, want)
	}
}
