package main

import (
	"os"
	"time"

	"github.com/stilelock/stile/cmd/stile/internal/page"
	"github.com/stilelock/stile/cmd/stile/internal/tty"
	"github.com/stilelock/stile/driver"
)

// whileOpening tells a person that a store has not answered yet, until the returned function is called, which waits for
// the end of it: on a terminal by a line that is redrawn, with --verbose by one that stays, and elsewhere not at all.
func whileOpening(a *driver.Address) (stop func()) {
	if speech == quiet || speech == normal && !tty.Is(os.Stderr) {
		return func() {}
	}
	begun, done, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer stderr.Erase()
		tick := time.NewTicker(vigilDelay)
		defer tick.Stop()
		draws := tty.Draws(os.Stderr)
		for said := false; ; said = true {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			switch {
			case !said && speech >= verbose:
				detail("waiting for %s to answer", a)
			case !said && !draws:
				warn("waiting for %s to answer", a)
			}
			if draws {
				stderr.Draw(func(cells int) string {
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
