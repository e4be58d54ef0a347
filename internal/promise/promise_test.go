package promise

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/work"
)

// A store is asked once for each time that it was connected to, if somebody wants to know, and again if it did not answer,
// or after a while.
func TestAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made, asked atomic.Int64
		var now atomic.Pointer[string]
		var failure error
		life := work.Begin()
		p := &Promise{Connections: made.Load, Life: life, Ask: func(context.Context) (driver.Traits, error) {
			asked.Add(1)
			return driver.Traits{Server: *now.Load()}, failure
		}}
		is := func(server string) { now.Store(&server) }
		sees := func(want string, questions int64) {
			t.Helper()
			first := p.Traits()
			synctest.Wait()
			if got := p.Traits().Server; got != want || asked.Load() != questions {
				t.Errorf("the server is %q, and before that %q, after %d questions; want %q after %d", got, first.Server, asked.Load(), want, questions)
			}
			synctest.Wait()
		}
		p.Set(driver.Traits{Server: "one"})
		is("two")
		sees("one", 0)
		made.Add(1)
		sees("two", 1)
		sees("two", 1)
		failure = errors.New("nobody answers")
		is("three")
		made.Add(1)
		p.Traits()
		synctest.Wait()
		failure = nil
		sees("three", 3)
		is("four")
		time.Sleep(reaskEvery - 1)
		sees("three", 3)
		time.Sleep(time.Nanosecond)
		sees("four", 4)
		sees("four", 4)
		life.End()
		made.Add(1)
		sees("four", 4)
		life.Wait()

		p = &Promise{Life: work.Begin(), Ask: p.Ask} // of a driver that does not see its connections
		p.Set(driver.Traits{Server: "three"})
		sees("three", 4)
		time.Sleep(reaskEvery)
		sees("four", 5)
		p.Life.End()
		p.Life.Wait()
	})
}
