package run

import (
	"io"
	"os"
	"testing"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/cmd/stile/internal/tty"
)

// With --quiet nothing is said of somebody who asks for the lock.
func TestQuietWhenAsked(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer func(line *tty.Line, level speech.Level) { speech.Stderr, speech.Current = line, level }(speech.Stderr, speech.Current)
	speech.Stderr = tty.NewLine(w)
	for _, speech.Current = range []speech.Level{speech.Quiet, speech.Normal} {
		NewEvents().Observe(stile.Event{Kind: stile.EventAsked, Name: "a"})
	}
	w.Close()
	const want = "stile: somebody asks for the lock a; it is released when CMD ends\n"
	if got, err := io.ReadAll(r); err != nil || string(got) != want {
		t.Errorf("it says %q, %v; want it once, %q", got, err, want)
	}
}
