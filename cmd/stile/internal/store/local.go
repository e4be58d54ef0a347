package store

import (
	"os"
	"path/filepath"

	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/cmd/stile/internal/tty"
)

// localMarker is a file in the state directory. It says that the user has seen the note about the default store.
const localMarker = "told-this-machine-only"

// noteLocal prints, once for each user, that locks without a chosen store exclude nobody on other machines. It prints only
// for people: a script's output must not differ from run to run.
func noteLocal() {
	dir, err := stateDir()
	if err != nil || speech.Current < speech.Normal || !tty.Is(os.Stderr) {
		return
	}
	f, err := os.OpenFile(filepath.Join(dir, localMarker), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return // the note was shown before; or it would be shown each time
	}
	_ = f.Close() // nothing was written to it
	speech.Warn("note: no store was named, so this lock is in a file and holds on this machine only; for several machines "+
		"give --url or %s (said once)",
		URLVariable)
}
