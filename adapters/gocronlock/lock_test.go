package gocronlock

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

// machines returns n clients of one store.
func machines(t *testing.T, n int) (clients []*stile.Client) {
	t.Helper()
	store := memory.NewStore()
	for range n {
		c, err := stile.New(store.Driver(), &stile.Options{LockOptions: stile.LockOptions{TTL: 9 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		clients = append(clients, c)
	}
	return clients
}

// One run excludes runs on other machines and on this one, until it is over, and then for AtLeast.
func TestLocker(t *testing.T) {
	for _, tt := range []struct {
		name    string
		atLeast time.Duration
		want    error // of a run right after the first one
	}{
		{"released", 0, nil},
		{"kept", time.Hour, stile.ErrHeld},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, clients := t.Context(), machines(t, 2)
			here := NewLocker(clients[0], &Options{Prefix: "cron/", AtLeast: tt.atLeast})
			there := NewLocker(clients[1], &Options{Prefix: "cron/"})
			lock, err := here.Lock(ctx, "report")
			if err != nil {
				t.Fatal(err)
			}
			lease := here.Lease("report")
			if lease == nil || lease.Name() != "cron/report" || lease.Check() != nil || there.Lease("report") != nil {
				t.Errorf("the lease of the run is %v", lease)
			}
			for name, l := range map[string]*Locker{"here": here, "there": there} {
				if _, err := l.Lock(ctx, "report"); !errors.Is(err, stile.ErrHeld) || !strings.Contains(err.Error(), `job "report"`) {
					t.Errorf("while it runs, %s: %v, want %v", name, err, stile.ErrHeld)
				}
			}
			other, err := there.Lock(ctx, "backup")
			if err != nil {
				t.Errorf("another job: %v", err)
			}
			over, cancel := context.WithCancel(ctx)
			cancel()
			if err := errors.Join(lock.Unlock(over), other.Unlock(over)); err != nil {
				t.Errorf("Unlock: %v", err)
			}
			if here.Lease("report") != nil {
				t.Error("the run has a lease when it is over")
			}
			if _, err = there.Lock(ctx, "report"); !errors.Is(err, tt.want) {
				t.Errorf("after it: %v, want %v", err, tt.want)
			}
		})
	}
}

// An elector leads until it is closed. Meanwhile no other leads, and afterwards one leads at once.
func TestElector(t *testing.T) {
	ctx, clients := t.Context(), machines(t, 2)
	a, b := NewElector(clients[0], "figures", "a"), NewElector(clients[1], "figures", "b")
	var jobs sync.WaitGroup
	for range 20 { // due jobs ask at the same time
		jobs.Go(func() {
			if err := a.IsLeader(ctx); err != nil {
				t.Errorf("the first that asks: %v", err)
			}
		})
	}
	jobs.Wait()
	if err := b.IsLeader(ctx); !errors.Is(err, stile.ErrHeld) {
		t.Errorf("the second that asks: %v, want %v", err, stile.ErrHeld)
	}
	if leader, err := clients[1].Leader(ctx, "figures"); err != nil || leader.Value != "a" {
		t.Errorf("the leader is %v (%v), want a", leader, err)
	}
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := b.IsLeader(ctx); err != nil {
		t.Errorf("after it resigned: %v", err)
	}
	lease, err := b.Lease(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clients[0].Break(ctx, "figures", stile.BreakOptions{Head: true}); err != nil {
		t.Fatal(err)
	}
	<-lease.Context().Done() // its client has noticed
	next, err := b.Lease(ctx)
	if err != nil || next.Token() <= lease.Token() {
		t.Errorf("deposed, it stands again: %v, want a token above %d", err, lease.Token())
	}
}

// A lock whose client is closed meanwhile is lost, and an elector whose client is closed no longer leads.
func TestClosedWhileLocked(t *testing.T) {
	ctx, client := t.Context(), machines(t, 1)[0]
	lock, err := NewLocker(client, nil).Lock(ctx, "report")
	if err != nil {
		t.Fatal(err)
	}
	elector := NewElector(client, "figures", "")
	if err := elector.IsLeader(ctx); err != nil {
		t.Fatal(err)
	}
	client.Close()
	if err := lock.Unlock(ctx); !errors.Is(err, stile.ErrLost) || !strings.HasPrefix(err.Error(), `gocronlock: job "report": `) {
		t.Errorf("unlock: %v, want %v", err, stile.ErrLost)
	}
	for range 2 {
		if err := elector.IsLeader(ctx); !errors.Is(err, stile.ErrClosed) || !strings.HasPrefix(err.Error(), "gocronlock: ") {
			t.Errorf("IsLeader: %v, want %v", err, stile.ErrClosed)
		}
	}
	if err := elector.Close(); err != nil {
		t.Errorf("closing an elector that no longer leads: %v", err)
	}
}

// An error names the adapter and the job.
func TestErrors(t *testing.T) {
	ctx, clients := t.Context(), machines(t, 2)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	elector := NewElector(clients[0], "figures", "")
	if err := elector.Close(); err != nil {
		t.Fatal(err)
	}
	clients[0].Close()
	try := func(l *Locker, ctx context.Context, key string) error {
		_, err := l.Lock(ctx, key)
		return err
	}
	for _, tt := range []struct {
		name string
		got  error
		want error
		text string
	}{
		{"locker of a client that is closed", try(NewLocker(clients[0], nil), ctx, "report"), stile.ErrClosed, `gocronlock: job "report": `},
		{"elector that is closed", elector.IsLeader(ctx), stile.ErrClosed, `gocronlock: election "figures": `},
		{"elector of a client that is closed", NewElector(clients[0], "figures", "").IsLeader(ctx), stile.ErrClosed, `gocronlock: stile: try "figures": `},
		{"context that has ended", try(NewLocker(clients[1], nil), ended, "report"), context.Canceled, `gocronlock: job "report": `},
		{"no name", try(NewLocker(clients[1], nil), ctx, ""), stile.ErrInvalid, `gocronlock: job "": `},
		{"negative time", try(NewLocker(clients[1], &Options{AtLeast: -1}), ctx, "report"), nil, "AtLeast is -1ns"},
	} {
		if tt.got == nil || tt.want != nil && !errors.Is(tt.got, tt.want) || !strings.Contains(tt.got.Error(), tt.text) {
			t.Errorf("%s: %v, want %v with %q", tt.name, tt.got, tt.want, tt.text)
		}
	}
}

// gocron accepts both, and reports a run that another machine has.
func TestSchedulers(t *testing.T) {
	clients := machines(t, 2)
	if _, err := NewLocker(clients[1], nil).Lock(t.Context(), "report"); err != nil {
		t.Fatal(err)
	}
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(NewLocker(clients[0], nil)))
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 1)
	_, err = s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(func() { t.Error("it ran") }),
		gocron.WithName("report"), gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { told <- err })))
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if err := <-told; !errors.Is(err, stile.ErrHeld) {
		t.Errorf("gocron was told %v, want %v", err, stile.ErrHeld)
	}
	if err := s.Shutdown(); err != nil {
		t.Error(err)
	}
}
