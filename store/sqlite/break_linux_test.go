package sqlite

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/sqldb"
)

// A change that a poll of this client has seen may be a break, which the poll does not look for. So a holder checks too,
// once.
func TestSignalStirsForEachChange(t *testing.T) {
	path := lockFile(t)
	d, b := open(t, path), signalOf(t, path)
	sleeps, rechecks := 0, 0
	b.Listen(t.Context(), "a", func() bool {
		switch sleeps++; sleeps {
		case 2:
			enter(t, d, claim("x", time.Minute), true)
			b.BeforePoll()
		case 4:
			return false
		}
		return true
	}, func() {}, func() { rechecks++ })
	if rechecks != 2 {
		t.Errorf("rechecked %d times; want when it begins, and after the change", rechecks)
	}
}

// A wakeup makes the client that it wakes check its claims.
func TestWakeStirs(t *testing.T) {
	path := lockFile(t)
	d, wakes, hears := open(t, path), signalOf(t, path), signalOf(t, path)
	hears.BeforePoll()
	hears.most = time.Hour
	ctx, cancel := context.WithCancel(drive.Timely(t))
	defer cancel()
	rechecked, ended := make(chan bool, 1000), make(chan struct{})
	go func() {
		defer close(ended)
		hears.Listen(ctx, "test", func() bool { return true }, func() {}, func() { rechecked <- true })
	}()
	<-rechecked
	for asleep := 0; asleep < 10; asleep++ {
		enter(t, d, claim(rand.Text(), time.Minute), true)
		select {
		case <-rechecked: // it was about to sleep, and noticed the change itself
			asleep--
			continue
		case <-time.After(5 * time.Millisecond):
		}
		wakes.Wake([]string{"test"})
		select {
		case <-rechecked:
		case <-awake.For(time.Minute):
			t.Fatal("a wakeup starts no check")
		}
	}
	cancel()
	<-ended
}

// A waiter and a holder of one client learn at once of a break by another client, and the waiter's other claim is not
// alerted.
func TestBreakIsHeard(t *testing.T) {
	lane := awake.Lane(t)
	path := lockFile(t)
	d, other := open(t, path), open(t, path)
	heard := make(chan string, 100)
	d.(driver.Alerter).Alert(func(ids ...string) {
		for _, id := range ids {
			heard <- id
		}
	})
	holder, waiter := claim("x", time.Minute), claim("x", time.Minute)
	waiter.Client = holder.Client
	enter(t, d, holder, true)
	enter(t, d, waiter, false)
	told := make(chan driver.Place, 1)
	go func() {
		p, _ := d.Await(drive.Timely(t), waiter)
		told <- p
	}()
	b := d.(*store).signal
	servertest.Until(t, "the waiter has looked", func() bool {
		count, ok := b.count()
		return ok && b.looked.Load() == count
	})
	for _, c := range []*driver.Claim{waiter, holder} {
		start := time.Now()
		if _, err := other.(driver.Breaker).Break(t.Context(), &driver.BreakRequest{Name: "x", Ticket: c.Ticket}); err != nil {
			t.Fatal(err)
		}
		select {
		case p := <-told:
			if c == holder || p.Holds {
				t.Errorf("the waiter is told %+v; want to look, when it is broken", p)
			}
		case id := <-heard:
			if c == waiter || id != holder.ID {
				t.Errorf("alerted of %s; want %s, when it is broken", id, holder.ID)
			}
		case <-awake.For(time.Minute):
			t.Fatal("nobody hears of the break")
		}
		lane.Within(time.Since(start), 5*time.Second, "word of the break")
	}
}

// Without a signal no client learns of a break at once, and the traits do not promise it.
func TestTraitsOfSignal(t *testing.T) {
	path := lockFile(t)
	with := open(t, path)
	without, err := sqldb.New(t.Context(), raw(t, path), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { without.Close() })
	for d, want := range map[driver.Driver]bool{with: true, without: false} {
		if got := d.Traits().HearsBreak; got != want {
			t.Errorf("HearsBreak = %v; want %v", got, want)
		}
	}
}
