package etcd

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/servertest"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// A meter counts the messages that clients send and get, by method.
type meter struct {
	mu   sync.Mutex // guards the fields below
	sent map[string]int
	got  map[string]int // nil if they are not counted
}

type methodKey struct{}

func (m *meter) TagRPC(ctx context.Context, i *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, methodKey{}, i.FullMethodName[strings.LastIndexByte(i.FullMethodName, '/')+1:])
}

func (m *meter) HandleRPC(ctx context.Context, s stats.RPCStats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	method := ctx.Value(methodKey{}).(string)
	switch s := s.(type) {
	case *stats.OutPayload:
		if w, ok := s.Payload.(*pb.WatchRequest); ok && w.GetCancelRequest() != nil {
			method = "cancel"
		}
		m.sent[method]++
	case *stats.InPayload:
		if m.got != nil {
			m.got[method]++
		}
	}
}

func (m *meter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (m *meter) HandleConn(context.Context, stats.ConnStats)                       {}

// number returns how many messages of a method were sent since the last take.
func (m *meter) number(method string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sent[method]
}

// take returns the numbers of messages sent since the last take, and their sum.
func (m *meter) take() (sent map[string]int, sum int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sent, m.sent = m.sent, map[string]int{}
	for _, n := range sent {
		sum += n
	}
	return sent, sum
}

// metered returns a driver whose messages are counted.
func metered(t testing.TB, m *meter, addr string) *Driver {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{addr}, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithStatsHandler(m)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	d, err := New(timely(t), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.wire.patience = time.Minute // so that no request is given up and sent again: it would count twice
	t.Cleanup(func() { d.Close() })
	return d
}

// Entering a free lock takes one transaction, and leaving it another. One lease serves all the claims.
func TestRequestsOfALoneClaim(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	m := &meter{sent: map[string]int{}}
	d := metered(t, m, s.Addr)
	round := func(try bool) {
		c := claimOn("name")
		c.Try = try
		if !enter(t, d, c).Holds {
			t.Fatal("the lock is taken")
		}
		leave(t, d, c)
	}
	start := time.Now()
	round(false)
	m.take()
	for range 10 {
		round(false)
		round(true)
	}
	sent, sum := m.take()
	lapses := int(time.Since(start) / lingerFor) // how often an unused watch may have ended, and begun again
	if sum -= min(sent["cancel"], lapses) + min(sent["Watch"], lapses); sent["Txn"] != 40 || sum != 40 {
		t.Errorf("20 locks and unlocks sent %v; want a transaction each, and nothing else", sent)
	}
	r, err := operator(t, s.Addr).Leases(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Leases) > 2 { // one is the lease of probe
		t.Errorf("%d leases for one claim at a time", len(r.Leases))
	}
}

// The number of requests of a hand-over does not grow with the number of waiting clients.
func TestRequestsOfAHandOver(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	for _, waiters := range []int{4, 32} {
		m := &meter{sent: map[string]int{}}
		type client struct {
			d *Driver
			c *driver.Claim
		}
		var line []client
		for range waiters + 1 {
			line = append(line, client{metered(t, m, s.Addr), claimOn("name")})
			last := line[len(line)-1]
			last.c.TTL = 10 * time.Minute // longer than the test, since nobody renews it
			enter(t, last.d, last.c)
		}
		var told atomic.Int64
		turns := make(chan int, len(line))
		turns <- 0
		ctx, cancel := context.WithCancel(timely(t))
		var all sync.WaitGroup
		for i, w := range line[1:] {
			all.Go(func() {
				for ctx.Err() == nil {
					p, err := w.d.Await(ctx, w.c)
					if err == nil && p.Holds {
						told.Add(1)
						turns <- i + 1
						return
					}
				}
			})
		}
		by := operator(t, s.Addr)
		servertest.Until(t, "all of them listen", func() bool {
			for _, w := range line[1:] {
				w.d.mu.Lock()
				k := w.d.claims.known[w.c.ID]
				listens := k.by != nil
				w.d.mu.Unlock()
				if !listens {
					return false
				}
			}
			return len(keys(t, by, "stile/name/")) == len(line)
		})
		// To begin a watch takes a message too. These must not be counted below, so all must have been sent.
		servertest.Until(t, "all watches have begun", func() bool {
			return m.number("Watch") == len(line) // the holder has a watch too
		})
		m.take()
		for range line {
			at := <-turns
			leave(t, line[at].d, line[at].c)
		}
		sent, sum := m.take()
		sum -= min(sent["cancel"], len(line)) // if the test takes longer than lingerFor, unused watches end
		if sent["Txn"] != len(line) || sum > len(line)+1 {
			t.Errorf("%d hand-overs with %d waiters sent %v; want one transaction each", waiters, waiters, sent)
		}
		cancel()
		all.Wait()
		if n := told.Load(); n != int64(waiters) {
			t.Errorf("%d of %d waiters were told", n, waiters)
		}
	}
}

// A claim enters behind others by two transactions, also if another claim of its client waits there: the first returns the
// queue, and the second puts the key behind it. A put without the first would gain nothing over a link. If the queue has
// another capacity, the first transaction shows it, and no key is put.
func TestRequestsBehindOthers(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	m := &meter{sent: map[string]int{}}
	d, others := metered(t, m, s.Addr), open(t, s.Addr)
	claim := func(capacity int64) *driver.Claim {
		c := claimOn("name")
		c.Weight, c.Capacity = capacity, capacity
		return c
	}
	provide(t, d, 3)
	enter(t, others, claim(3))
	for ahead := range 2 {
		m.take()
		if p := enter(t, d, claim(3)); p.Holds || p.Ahead != 1+ahead {
			t.Errorf("enter behind %d = %+v; want to wait", 1+ahead, p)
		}
		if sent, sum := m.take(); sent["Txn"] != 2 || sum != 2 {
			t.Errorf("entering behind %d sent %v; want two transactions", 1+ahead, sent)
		}
	}
	_, err := d.Enter(timely(t), claim(5))
	if e, ok := errors.AsType[*driver.CapacityError](err); !ok || e.Have != 3 || e.Want != 5 {
		t.Errorf("enter of a queue of capacity 3 = %v; want that it is not 5", err)
	}
	if sent, _ := m.take(); sent["Txn"] != 1 {
		t.Errorf("a queue of another capacity was found by %v; want one transaction", sent)
	}
	if list := keys(t, operator(t, s.Addr), "stile/name/"); len(list) != 3 {
		t.Errorf("keys %q are there; want three", list)
	}
}

// etcd sends a waiter of the whole capacity only deletions: only they can let it in. It sends a waiter of a part also the
// puts, since an amendment that lowers a weight is a put.
func TestMessagesOfAQueue(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	others := open(t, s.Addr)
	for name, want := range map[string]struct {
		weight int64
		told   int
	}{"whole": {driver.All, 1}, "part": {1, 21}} {
		m := &meter{sent: map[string]int{}, got: map[string]int{}}
		d := metered(t, m, s.Addr)
		claim := func(weight int64) *driver.Claim {
			c := claimOn(name)
			c.Weight = weight
			return c
		}
		holder, waiter := claim(driver.All), claim(want.weight)
		enter(t, others, holder)
		enter(t, d, waiter)
		turn := make(chan error, 1)
		go func() {
			p, err := d.Await(timely(t), waiter)
			if err == nil && !p.Holds {
				err = errors.New("it is to ask again")
			}
			turn <- err
		}()
		messages := func() int {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.got["Watch"]
		}
		servertest.Until(t, "the watch stands", func() bool { return messages() == 1 })
		for range 20 {
			enter(t, others, claim(driver.All))
		}
		leave(t, others, holder)
		if err := <-turn; err != nil {
			t.Errorf("%s: await = %v; want the lock", name, err)
		}
		if got := messages() - 1; got != want.told {
			t.Errorf("%s: 20 claims came and one left, and the waiter was sent %d messages; want %d", name, got, want.told)
		}
	}
}

// If the answer to the put of a claim is lost, the next Enter finds the claim by its one key, and so does a Leave.
func TestReplyIsLost(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	by := operator(t, s.Addr)
	for name, then := range map[string]func(t *testing.T, d *Driver, c *driver.Claim){
		"enter": func(t *testing.T, d *Driver, c *driver.Claim) {
			p := enter(t, d, c)
			if !p.Holds || len(keys(t, by, "stile/enter/")) != 1 {
				t.Errorf("entering again = %+v, keys %q; want one key, which holds", p, keys(t, by, "stile/enter/"))
			}
			leave(t, d, c)
		},
		"leave": func(t *testing.T, d *Driver, c *driver.Claim) { leave(t, d, c) },
		"try": func(t *testing.T, d *Driver, c *driver.Claim) {
			c.Try = true
			if p := enter(t, d, c); !p.Holds {
				t.Errorf("trying again = %+v; want the claim that holds", p)
			}
			leave(t, d, c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := servertest.NewProxy(t, s.Addr)
			d := open(t, p.Addr)
			warm := claimOn(name + "-before")
			enter(t, d, warm)
			leave(t, d, warm)
			c := claimOn(name)
			p.Freeze(false, true)
			ctx, cancel := context.WithCancel(timely(t))
			ended := make(chan error, 1)
			go func() {
				_, err := d.Enter(ctx, c)
				ended <- err
			}()
			queued(t, by, "stile/"+name+"/", 1)
			p.Drop()
			err := <-ended
			cancel()
			if err == nil || driver.NotApplied(err) {
				t.Errorf("enter = %v; want an unknown outcome", err)
			}
			then(t, d, c)
			if list := keys(t, by, "stile/"+name+"/"); len(list) != 0 {
				t.Errorf("keys %q are left", list)
			}
			k := d.claims.of(c.ID)
			if k != nil {
				t.Errorf("the driver remembers a claim that left")
			}
		})
	}
}

// A request that was given up may still arrive. So after the claim has left, its lease is revoked, and etcd cannot apply the
// request any more.
func TestRequestIsLate(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	lane := awake.Lane(t)
	by := operator(t, s.Addr)
	d := open(t, s.Addr)
	c := claimOn("name")
	k := outfitted(t, d, c)
	k.home.asked(1) // a request was sent
	if err := d.Leave(timely(t), &driver.Release{Claim: c}); !driver.NotApplied(err) {
		t.Errorf("leave of a claim that is not there = %v; want ErrGone", err)
	}
	start := time.Now()
	servertest.Until(t, "the lease is gone", func() bool {
		r, err := by.TimeToLive(timely(t), clientv3.LeaseID(k.home.id))
		return err == nil && r.TTL <= 0
	})
	lane.Within(time.Since(start), soon, "the lease is revoked")
	if _, err := by.Put(timely(t), k.key, "late", clientv3.WithLease(clientv3.LeaseID(k.home.id))); err == nil {
		t.Error("the late request is applied")
	}
}

// If the revision at which a watch is to begin is compacted before, the waiter reads the queue again, and misses nothing.
func TestCompaction(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	by := operator(t, s.Addr)
	d := open(t, s.Addr)
	holder, waiter := claimOn("name"), claimOn("name")
	enter(t, d, holder)
	enter(t, d, waiter)
	for range 5 {
		if _, err := by.Put(timely(t), "else", "x"); err != nil {
			t.Fatal(err)
		}
	}
	leave(t, d, holder)
	r, err := by.Get(timely(t), "else")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := by.Compact(timely(t), r.Header.Revision); err != nil {
		t.Fatal(err)
	}
	p, err := d.Await(timely(t), waiter)
	if err != nil || p.Holds {
		t.Fatalf("await = %+v, %v; want to be asked to enter again", p, err)
	}
	if p := enter(t, d, waiter); !p.Holds {
		t.Errorf("entering again = %+v; want the lock", p)
	}
}

// A claim that holds gets another watch after its watch was ended.
func TestCompactionUnderAHolder(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	by := operator(t, s.Addr)
	d := open(t, s.Addr)
	alerts := make(chan string, 10)
	d.Alert(func(ids ...string) {
		for _, id := range ids {
			alerts <- id
		}
	})
	c := claimOn("name")
	enter(t, d, c)
	k := d.claims.of(c.ID)
	d.mu.Lock()
	k.knows, k.seen = deaf, 0 // as if it had been ended before
	k.watching.Stop()
	k.watching = nil
	d.watches.watchSoonLocked(k, 0)
	d.mu.Unlock()
	if id := <-alerts; id != c.ID {
		t.Fatalf("alert of %s; want %s", id, c.ID)
	}
	if err := renew(t, d, c); err != nil {
		t.Fatal(err)
	}
	servertest.Until(t, "it is watched over", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return k.by != nil
	})
	remove(t, by, k.key)
	if id := <-alerts; id != c.ID {
		t.Fatalf("alert of %s; want %s", id, c.ID)
	}
}
