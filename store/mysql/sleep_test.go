package mysql

import (
	"context"
	"crypto/rand"
	"github.com/stilelock/stile/internal/awake"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// beset lets four connections wake a client that listens, in bursts. It counts the wakeups, and the wakeups that took longer
// than a second. After each burst the client must soon get a wakeup.
func beset(t *testing.T, d *Driver, bursts int) (kills, slow int64) {
	t.Helper()
	client := rand.Text()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var texts, n, late atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_ = d.store.listen(ctx, client, func() bool { texts.Add(1); return true }, func() {}, func() {})
		}
	}()
	until(t, "to hear the client's own wakeup", d.store.wakeups.heard)
	wake := func() {
		start := time.Now()
		if err := d.store.wake(ctx, client); err != nil {
			t.Error(err)
		}
		n.Add(1)
		if time.Since(start) > time.Second {
			late.Add(1)
		}
	}
	for i := range bursts {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 3 {
					wake()
				}
			})
		}
		all.Wait()
		over, tick := awake.For(time.Minute), time.Tick(time.Millisecond)
		for was := texts.Load(); texts.Load() == was; <-tick {
			if awake.Over(over) {
				t.Fatalf("after %d bursts of wakeups, the client hears none any more", i+1)
			}
			wake()
		}
	}
	cancel()
	<-ended
	return n.Load(), late.Load()
}

// A wakeup between the poll and the sleep of one text ends that text, and the client gets the next wakeup.
func TestWakesAtAnyMoment(t *testing.T) {
	t.Parallel()
	url := fresh(t, server)
	d := open(t, url)
	if !d.store.blocks {
		t.Log("without blocks, such a text has no answer")
		return
	}
	lies, err := raw(t, server, "").Conn(timely(t)) // so that the client is not in SLEEP
	if err != nil {
		t.Fatal(err)
	}
	defer lies.Close()
	if _, err := lies.ExecContext(timely(t), "DO GET_LOCK("+parkedLock+", 10)"); err != nil {
		t.Fatal(err)
	}
	kills, slow := beset(t, d, 400)
	t.Logf("%d wakeups, of which %d took over a second", kills, slow)
}

// A server whose new setting forbids blocks, as sql_mode ORACLE does, gets the statements without a block.
func TestSleepWithoutABlock(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t)
	admin, name := raw(t, s, ""), database(t, s)
	d := open(t, "mysql://root@"+s.Addr+"/"+name)
	if !d.store.blocks {
		t.Log("the server takes no blocks")
		return
	}
	mustExec(t, admin, "SET GLOBAL sql_mode = 'ORACLE'")
	killConnections(t, admin, name)
	ctx, cancel := context.WithCancel(t.Context())
	d.store.life.Go(func() {
		for ctx.Err() == nil {
			d.store.Listen(ctx, "client", func() bool { return true }, func() {}, func() {})
		}
	})
	until(t, "to hear the client's own wakeup", d.store.wakeups.heard)
	cancel()
}
