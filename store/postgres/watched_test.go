package postgres

import (
	"context"
	"sync"
	"testing"
	"time"
)

// While a name is watched, a lone claim enters and leaves by the function, which notifies the watch.
func TestLoneIsWatched(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(server))
	before, now := claim("name", "before"), claim("name", "now")
	enter(t, d, before)
	leave(t, d, before) // so that the name has an empty row
	enter(t, d, now)
	if n := count(t, d, lone); n != 1 {
		t.Fatalf("%d claims are alone in their names' rows; want 1", n)
	}
	exec(t, connect(t, server), d.tables.fill(`UPDATE "{schema}".{prefix}name SET watched = "{schema}".{prefix}now() + $1`),
		time.Hour.Microseconds())
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	told := d.watch.begin("name")
	hears := make(chan struct{}, 1)
	watching.Go(func() {
		_ = (&listener{d}).Subscribe(ctx, d.channel, func(bool) { hears <- struct{}{} }, func(string) {})
	})
	<-hears
	<-told // because the driver begins to listen
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"leave", func() { leave(t, d, now) }},
		{"enter", func() { enter(t, d, claim("name", "next")) }},
	} {
		step.do()
		select {
		case <-told:
		case <-timely(t).Done():
			t.Fatalf("nobody was told of the %s", step.what)
		}
	}
}
