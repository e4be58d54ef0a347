package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/claim"
	"github.com/stilelock/stile/cmd/stile/internal/flags"
	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/cmd/stile/internal/tty"
	"github.com/stilelock/stile/driver"
)

// A release that failed is no failure of CMD, but others may have to wait, and the warning says for how long.
func TestFailedReleaseSaysHowLongOthersWait(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before := speech.Stderr
	speech.Stderr = tty.NewLine(f)
	defer func() { speech.Stderr = before }()

	r := &Runner{Verb: "run", Want: claim.Want{TTL: flags.Duration(15 * time.Second), Delay: flags.Duration(5 * time.Second)}}
	failed := &stile.Error{Op: "unlock", Name: "a", Err: driver.Refused(os.ErrPermission)}
	if err := r.ended(&Keeper{}, failed); err != nil {
		t.Errorf("the end of a run: %v; want that of CMD", err)
	}
	r.atLeast = flags.Duration(time.Minute)
	_ = r.ended(&Keeper{}, failed)
	_ = r.ended(&Keeper{}, &stile.Error{Op: "unlock", Name: "a", Err: &stile.UnknownError{Err: os.ErrPermission}}) // says a time itself

	text, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for i, most := range []string{"20s", "1m0s"} {
		want := `stile: warning: unlock "a": permission denied; CMD has ended, but others may have to wait for the lock, for ` + most + " at most"
		if lines[i] != want {
			t.Errorf("got %q; want %q", lines[i], want)
		}
	}
	if strings.Contains(lines[2], "at most") {
		t.Errorf("got %q; want no second time", lines[2])
	}
}
