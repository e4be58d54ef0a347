package store

import (
	"os"
	"time"

	"github.com/stilelock/stile/cmd/stile/internal/page"
	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/cmd/stile/internal/tty"
	"github.com/stilelock/stile/driver"
)

// whileOpening shows a person that a store has not answered yet: on a terminal by a line that is redrawn, with --verbose by
// a line that stays, and otherwise not at all. The returned function ends this, and waits for the end.
func whileOpening(a *driver.Address) (stop func()) {
	if speech.Current == speech.Quiet || speech.Current == speech.Normal && !tty.Is(os.Stderr) {
		return func() {}
	}
	begun, done, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer speech.Stderr.Erase()
		tick := time.NewTicker(speech.Delay)
		defer tick.Stop()
		draws := tty.Draws(os.Stderr)
		for said := false; ; said = true {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			switch {
			case !said && speech.Current >= speech.Verbose:
				speech.Detail("waiting for %s to answer", a)
			case !said && !draws:
				speech.Warn("waiting for %s to answer", a)
			}
			if draws {
				speech.Stderr.Draw(func(cells int) string {
					return page.Cut("stile: waiting "+page.Short(time.Since(begun))+" for "+a.String()+" to answer", cells)
				})
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
