package store

import (
	"os"
	"path/filepath"

	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/cmd/stile/internal/tty"
)

// localMarker is a file in the state directory of a user who was told that the default store is one machine's.
const localMarker = "told-this-machine-only"

// noteLocal says, once to each user, that the locks which are taken without a word about the store exclude nobody on other
// machines. It says it to people only: a script's output must not differ from run to run.
func noteLocal() {
	dir, err := stateDir()
	if err != nil || speech.Current < speech.Normal || !tty.Is(os.Stderr) {
		return
	}
	f, err := os.OpenFile(filepath.Join(dir, localMarker), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return // it was said before; or it would be said again each time
	}
	_ = f.Close() // nothing was written to it
	speech.Warn("note: no store was named, so this lock is in a file and holds on this machine only; for several machines give --url or %s (said once)",
		URLVariable)
}
