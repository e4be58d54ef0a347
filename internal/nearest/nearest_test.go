package nearest_test

import (
	"testing"

	"github.com/stilelock/stile/internal/nearest"
)

func TestTo(t *testing.T) {
	t.Parallel()
	verbs := []string{"break", "elect", "lock", "ls", "run", "show", "unlock", "watch"}
	for word, want := range map[string]string{
		"lokc": "lock", "lok": "lock", "unlck": "unlock", "unlokc": "unlock", "rn": "run", "list": "ls", "l": "ls", "wacht": "watch",
		"bogus": "", "": "", "lock": "lock", "delete": "", "acquire": "",
	} {
		if got := nearest.To(word, verbs); got != want {
			t.Errorf("to %q is %q; want %q", word, got, want)
		}
	}
	if got := nearest.Hint("redsi", []string{"etcd", "redis"}); got != "; did you mean redis?" {
		t.Errorf("hint %q", got)
	}
	if got := nearest.Hint("x", nil); got != "" {
		t.Errorf("hint %q; want none", got)
	}
}
