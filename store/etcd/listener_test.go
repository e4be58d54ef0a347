package etcd

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/servertest"
)

// A claim counts the deletions and smaller weights after the queue ahead of it was read, each once.
func TestHear(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		knows       knowledge
		heard       []event
		over        int64
		gone, nudge bool
	}{
		{"nothing", hearing, nil, 3, false, false},
		{"of another name's key", hearing, []event{{"n/z", 11, 0}}, 3, false, false},
		{"one of two", hearing, []event{{"n/1", 11, 0}}, 1, false, false},
		{"both", hearing, []event{{"n/1", 11, 0}, {"n/2", 12, 0}}, 0, false, true},
		{"one twice, since its lease named another key", hearing, []event{{"n/1", 11, 0}, {"n/1", 13, 0}}, 1, false, false},
		{"before the queue was read", hearing, []event{{"n/1", 9, 0}, {"n/2", 10, 0}}, 3, false, false},
		{"its own", hearing, []event{{"n/3", 11, 0}}, 3, true, true},
		{"its own, of an earlier claim", hearing, []event{{"n/3", 10, 0}}, 3, false, false},
		{"that one of two has become lighter", hearing, []event{{"n/1", 11, 1}}, 2, false, false},
		{
			"the same after that", hearing,
			[]event{{"n/1", 11, 1}, {"n/1", 12, 1}, {"n/1", 13, 0}, {"n/2", 14, 0}}, 0, false, true,
		},
		{"of a weight, before the queue was read", hearing, []event{{"n/1", 10, 1}}, 3, false, false},
		{"that its own weight is another", hearing, []event{{"n/3", 11, 1}}, 3, false, false},
		{"while a request is on its way", gathering, []event{{"n/1", 11, 0}, {"n/2", 12, 0}}, 3, false, false},
	} {
		k := &localClaim{key: "n/3", created: 10, state: claimWaiting, listener: listener{
			knows: test.knows, seen: 10, ahead: map[string]before{"n/1": {2, 8}, "n/2": {1, 9}}, over: 3,
			turn: make(chan struct{}, 1),
		}}
		for _, e := range test.heard {
			k.hearLocked(e)
		}
		gone, told := k.state == claimDeleted, len(k.turn) == 1
		if k.over != test.over || gone != test.gone || told != test.nudge {
			t.Errorf("event %s: over by %d, gone %v, told %v; want %d, %v, %v",
				test.name, k.over, gone, told, test.over, test.gone, test.nudge)
		}
		if want := len(test.heard); test.knows == gathering && len(k.early) != want {
			t.Errorf("event %s: %d are kept for later; want %d", test.name, len(k.early), want)
		}
	}
}

// Await answers that a claim holds only if its place was known before. While the claim leaves, Await goes on waiting.
func TestReady(t *testing.T) {
	t.Parallel()
	for s := claimAsking; s <= claimLost; s++ {
		k := &localClaim{state: s, listener: listener{knows: hearing}}
		p, settled := k.ready(&driver.Claim{})
		if want := s == claimWaiting || s == claimHolding; p.Holds != want || settled != (s != claimLeaving) {
			t.Errorf("state %d: holds %v, settled %v; want %v, %v", s, p.Holds, settled, want, s != claimLeaving)
		}
	}
}

// If the key of a claim is deleted before the answer arrives that the claim holds, the client is alerted at once.
func TestDeletionBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	d := newDriver("")
	d.life.End()
	var told []string
	d.Alert(func(ids ...string) { told = append(told, ids...) })
	c := &driver.Claim{Name: "n", ID: "a", Weight: 1, Capacity: 1}
	k := d.claims.remember(newLocalClaim(c, "n/1", &lease{id: 1}))
	d.watches.open[k.watchKey()] = &queueWatch{watchKey: k.watchKey(), claims: map[*localClaim]bool{}}
	d.claims.sight(k, &entry{key: "n/1", created: 10, modified: 10, lease: 1})
	d.watches.expect(k)
	k.hearLocked(event{"n/1", 12, 0})
	d.watches.noteQueue(c, k, queue{{key: "n/1", created: 10}}, 0, true, 11, true)
	if !slices.Equal(told, []string{"a"}) || k.state != claimDeleted {
		t.Errorf("told %q, state %d; want that the client is told, and the claim known to be deleted", told, k.state)
	}
}

// If the watch ends while the head of the queue is read, the claim does not know the keys behind this head. So it must not
// take the end of the head for its turn, even if a new watch begins: it knows nothing until its whole queue is read.
func TestWatchEndsWhileTheHeadIsRead(t *testing.T) {
	t.Parallel()
	d := newDriver("")
	defer d.life.End()
	c := &driver.Claim{Name: "n", ID: "c", Weight: driver.All, Capacity: driver.All}
	k := d.claims.remember(newLocalClaim(c, "n/3", &lease{id: 3}))
	q := queue{{key: "n/1", created: 7}, {key: "n/2", created: 8}, {key: "n/3", created: 9}}
	for i, id := range []string{"a", "b", "c"} {
		q[i].value = value{Weight: driver.All, Capacity: driver.All, ID: id}
	}
	listens := func() *queueWatch {
		d.mu.Lock()
		defer d.mu.Unlock()
		w := &queueWatch{watchKey: k.watchKey(), on: &watchStream{}, claims: map[*localClaim]bool{}, heard: k.seen}
		d.watches.open[w.watchKey] = w
		d.watches.subscribeLocked(k, w)
		return w
	}
	waits := func(what string, want bool) {
		t.Helper()
		if p, err := d.Await(t.Context(), c); err != nil || p.Holds != want {
			t.Errorf("%s: await = %+v, %v; want to hold: %v", what, p, err, want)
		}
	}
	d.claims.sight(k, &q[2])
	d.watches.noteQueue(c, k, q, 2, true, 9, false)
	w := listens()
	if !d.watches.expect(k) {
		t.Fatal("it does not know what is ahead")
	}
	d.watches.broken(w)
	d.watches.noteQueue(c, k, queue{q[0], q[2]}, 1, false, 9, false)
	if k.knows != deaf {
		t.Fatalf("it knows %v of the queue; want nothing", k.knows)
	}
	waits("the head was read", false)
	d.watches.expect(k)
	d.watches.noteQueue(c, k, q, 2, true, 9, false) // the next Enter reads all
	listens()
	k.hearLocked(event{"n/1", 10, 0})
	if k.over <= 0 {
		t.Error("the head is gone, and it takes nobody to be ahead; want n/2")
	}
	k.hearLocked(event{"n/2", 11, 0})
	waits("all are gone", true)
}

// Claims before the head of the queue are not counted, although the watch has not reported their deletion.
func TestCountAhead(t *testing.T) {
	t.Parallel()
	k := &localClaim{listener: listener{ahead: map[string]before{"n/1": {1, 7}, "n/2": {1, 8}, "n/3": {1, 9}}}}
	for _, test := range []struct {
		head queue
		want int
	}{{nil, 0}, {queue{{created: 7}}, 3}, {queue{{created: 9}}, 1}} {
		if n := newWatches(&sync.Mutex{}, nil).countAhead(k, test.head); n != test.want {
			t.Errorf("behind the head %v %d are counted; want %d", test.head, n, test.want)
		}
	}
}

// A claim with a lock-delay learns that it holds only after its key was attached to the longer lease.
func TestDelayBeforeHolding(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	d := open(t, s.Addr)
	holder, waiter := claimOn("name"), claimOn("name")
	waiter.Delay = time.Minute
	enter(t, d, holder)
	enter(t, d, waiter)
	leave(t, d, holder)
	if p, err := d.Await(timely(t), waiter); err != nil || p.Holds {
		t.Fatalf("await = %+v, %v; want to be asked to enter again", p, err)
	}
	if p := enter(t, d, waiter); !p.Holds || p.TTL > waiter.TTL {
		t.Errorf("enter = %+v; want the lock for %v", p, waiter.TTL)
	}
	e, err := d.find(timely(t), waiter)
	if err != nil {
		t.Fatal(err)
	}
	if home, _ := e.home(); e.lease == home {
		t.Error("the key hangs on the lease that it is named for; want one that is longer by the delay")
	}
	if left := d.wire.timeToLive(timely(t), e.lease); left < time.Minute+waiter.TTL-10*time.Second {
		t.Errorf("the longer lease lasts %v; want %v and a minute", left, waiter.TTL)
	}
}

// If a server hangs, every call ends with its context, and no unknown outcome is reported as a known one.
func TestCallsEnd(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	lane := awake.Lane(t)
	d := open(t, s.Addr)
	c, waiter := claimOn("name"), claimOn("name")
	enter(t, d, c)
	enter(t, d, waiter)
	if err := renew(t, d, c); err != nil {
		t.Fatal(err)
	}
	s.Pause()
	defer s.Resume()
	for verb, call := range map[string]func(ctx context.Context) error{
		"enter":       func(ctx context.Context) error { _, err := d.Enter(ctx, claimOn("name")); return err },
		"enter again": func(ctx context.Context) error { _, err := d.Enter(ctx, c); return err },
		"await":       func(ctx context.Context) error { _, err := d.Await(ctx, waiter); return err },
		"renew":       func(ctx context.Context) error { return d.Renew(ctx, []*driver.Claim{c})[0].Err },
		"leave":       func(ctx context.Context) error { return d.Leave(ctx, &driver.Release{Claim: waiter}) },
		"list":        func(ctx context.Context) error { _, err := d.List(ctx, &driver.Query{Name: "name"}); return err },
		"break": func(ctx context.Context) error {
			_, err := d.Break(ctx, &driver.BreakRequest{Name: "name"})
			return err
		},
		"watch": func(ctx context.Context) error { return d.Watch(ctx, "name", func() {}) },
	} {
		t.Run(verb, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // in which the request leaves
			defer cancel()
			err := call(ctx)
			end, _ := ctx.Deadline()
			lane.Within(time.Since(end), 900*time.Millisecond, "%s, whose context ends,", verb)
			grant := verb == "enter" // the server granted no lease, so the put was not sent
			if !errors.Is(err, context.DeadlineExceeded) || driver.NotApplied(err) != grant {
				t.Errorf("%s = %v, rejected %v; want the context's error", verb, err, driver.NotApplied(err))
			}
		})
	}
}
