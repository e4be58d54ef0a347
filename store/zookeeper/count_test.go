package zookeeper_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// setCount changes a count as Curator's SharedCount does: four bytes, the highest first.
func (a *admin) setCount(path, data string) {
	a.t.Helper()
	create, set := wire.CreatePersistent(path, data, wire.Open), wire.Set(path, data)
	if a.do(create, set); set.Err != nil {
		a.t.Fatalf("set %s: %v", path, set.Err)
	}
}

// The count is what Curator's SharedCount makes of it, at the path that the URL gives, and both sides read and write it.
func TestCountOfCurator(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	a := newAdmin(t, s.Addr)
	a.create("/app")
	for params, path := range map[string]string{
		"/app?layout=semaphore":                         "/app/stile/n%2F1/permits",
		"/app?layout=semaphore&permits=/counts/{name}":  "/app/counts/n%2F1",
		"/app?layout=semaphore&permits=all-of-them":     "/app/all-of-them",
		"?layout=semaphore&prefix=&permits=/p/{name}/x": "/p/n%2F1/x",
	} {
		c := client(t, "zk://"+s.Addr+params)
		if err := c.SetPermits(t.Context(), "n/1", 258, "a start"); err != nil {
			t.Fatalf("%s: set permits: %v", params, err)
		}
		get := wire.Get(path, nil)
		if a.do(get); get.Err != nil || get.Data != "\x00\x00\x01\x02" || get.Stat.Owner != 0 {
			t.Errorf("%s: the count at %s is %q of session %d, %v; want 258 as four bytes, of none", params, path, get.Data, get.Stat.Owner, get.Err)
		}
		q, err := c.Show(t.Context(), "n/1")
		if err != nil || q.Permits != 258 || !q.Counted || q.Setter.Reason != "a start" || q.Setter.PID == 0 {
			t.Errorf("%s: show = %+v, %v; want 258 permits, set for a start", params, q, err)
		}
		a.setCount(path, "\x00\x00\x00\x01")
		if q, err = c.Show(t.Context(), "n/1"); err != nil || q.Permits != 1 || !q.Counted || q.Setter != (stile.Holder{}) {
			t.Errorf("%s: show = %+v, %v; want one permit, set by nobody known, since the reason was of another count", params, q, err)
		}
		lease, err := c.Permit("n/1", 1, 0).TryLock(t.Context())
		if err != nil {
			t.Fatalf("%s: try: %v", params, err)
		}
		if _, err := c.Permit("n/1", 1, 0).TryLock(t.Context()); !errors.Is(err, stile.ErrHeld) {
			t.Errorf("%s: a second try = %v; want ErrHeld", params, err)
		}
		a.setCount(path, "\x00\x00\x00\x02")
		second, err := c.Permit("n/1", 1, 0).TryLock(t.Context())
		if err != nil {
			t.Fatalf("%s: a try once there are two: %v", params, err)
		}
		if err := errors.Join(lease.Unlock(), second.Unlock()); err != nil {
			t.Errorf("%s: unlock: %v", params, err)
		}
	}
}

// What is no count lets nobody in, and is not written over.
func TestCountOfAnother(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	a := newAdmin(t, s.Addr)
	c := client(t, "zk://"+s.Addr+"?layout=semaphore&permits={name}")
	for name, test := range map[string]struct {
		data, says string
		foreign    bool
	}{
		"empty":  {"", "the node /empty has 0 bytes, and a count of permits has 4", true},
		"text":   {"12", "the node /text has 2 bytes", true},
		"long":   {"\x00\x00\x00\x00\x00\x00\x00\x01", "the node /long has 8 bytes", true},
		"minus":  {"\xff\xff\xff\xff", "the node /minus: a count of permits is from 0 to 2147483646, not -1", false},
		"beyond": {"\x7f\xff\xff\xff", "not 2147483647", false},
	} {
		a.setCount("/"+name, test.data)
		_, err := c.Permit(name, 1, 0).Lock(t.Context())
		if err == nil || !strings.Contains(err.Error(), test.says) || errors.Is(err, stile.ErrForeign) != test.foreign {
			t.Errorf("lock by %q = %v; want %q, ErrForeign: %v", test.data, err, test.says, test.foreign)
		}
		if left := a.children("/stile/" + name + "/locks"); len(left) != 0 {
			t.Errorf("lock by %q has left %q", test.data, left)
		}
		err = c.SetPermits(t.Context(), name, 3, "")
		if errors.Is(err, stile.ErrForeign) != test.foreign || !test.foreign && err != nil {
			t.Errorf("set permits over %q = %v; want ErrForeign: %v", test.data, err, test.foreign)
		}
	}
	_, err := c.Permit("none", 1, 0).Lock(t.Context())
	if err == nil || !strings.Contains(err.Error(), "has no count of permits at /none: make one") {
		t.Errorf("lock without a count = %v; want the path", err)
	}
}

// A claim that waits is told if the count is removed: it fails, and does not wait for ever.
func TestCountRemoved(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	a := newAdmin(t, s.Addr)
	c := client(t, "zk://"+s.Addr+"?layout=semaphore&permits={name}")
	a.setCount("/n", "\x00\x00\x00\x01")
	lease, err := c.Permit("n", 1, 0).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := c.Permit("n", 1, 0).Lock(t.Context())
		failed <- err
	}()
	a.until("n/leases", 2)
	a.remove("/n")
	select {
	case err := <-failed:
		if err == nil || !strings.Contains(err.Error(), "has no count of permits at /n") {
			t.Errorf("the one that waits = %v; want that there is no count", err)
		}
	case <-time.After(time.Minute):
		t.Error("the one that waits goes on waiting without a count")
	}
	if err := lease.Check(); err != nil {
		t.Errorf("the lease of the holder: %v; want it to go on", err)
	}
	if err := lease.Unlock(); err != nil {
		t.Errorf("unlock: %v", err)
	}
	servertest.Until(t, "nothing is left", func() bool { return len(a.children("/stile/n/locks"))+len(a.children("/stile/n/leases")) == 0 })
}

// Who may not write the count is told so, and so is who may not read it.
func TestCountACL(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	a := newAdmin(t, s.Addr)
	const params = "?layout=semaphore&acl=creator&permits=/{name}"
	joe := client(t, "zk://joe:"+password+"@"+s.Addr+params)
	if err := joe.SetPermits(t.Context(), "n", 2, ""); err != nil {
		t.Fatal(err)
	}
	if got := a.children("/"); !slices.Contains(got, "n") {
		t.Errorf("the root has %q; want the count", got)
	}
	ann := client(t, "zk://ann:"+password+"@"+s.Addr+"?layout=semaphore&prefix=ann/&permits=/{name}")
	for what, err := range map[string]error{
		"set permits": ann.SetPermits(t.Context(), "n", 3, ""),
		"lock":        func() error { _, err := ann.Permit("n", 1, 0).Lock(t.Context()); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), `does not let user "ann" do this at /n`) {
			t.Errorf("%s of another user = %v; want its access list named", what, err)
		}
	}
}

// A change that is lost on its way, or whose answer is, does not undo one that came after it.
func TestCountLateChange(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	p, url := behind(t, s, "layout=semaphore")
	d, a := open(t, url), newAdmin(t, s.Addr)
	change := func(ctx context.Context, n int64) error {
		_, err := d.(driver.Breaker).Break(ctx, &driver.BreakRequest{Name: "n", Count: &n})
		return err
	}
	if err := change(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	listed := func() ([]driver.Listing, error) { // on the same connection, behind what was late
		var list []driver.Listing
		err := reached(t, func() (err error) {
			list, err = d.(driver.Lister).List(t.Context(), &driver.Query{Name: "n", Count: true})
			return err
		})
		return list, err
	}
	for again := range 6 {
		p.Hold(1) // the count is read, and the change is not heard of
		ctx, cancel := context.WithCancel(t.Context())
		late := make(chan error, 1)
		go func() { late <- change(ctx, 2) }()
		servertest.Until(t, "the change is held back", func() bool { return p.Held() > 0 })
		cancel()
		err := <-late
		if err != nil && !driver.NotApplied(err) {
			break
		}
		if err == nil || again == 5 {
			t.Fatalf("a change without an answer = %v; want an unknown outcome", err)
		}
		// A ping came before the count was read, which was held back itself.
		p.Pass()
		p.Arrive()
		if list, err := listed(); err != nil || len(list) != 1 || list[0].Capacity != 1 {
			t.Fatalf("list = %+v, %v; want the count as it was, 1, since the change is said not to be done", list, err)
		}
	}
	a.setCount("/stile/n/permits", "\x00\x00\x00\x07")
	p.Pass()
	p.Arrive()
	list, err := listed()
	if err != nil || len(list) != 1 || list[0].Capacity != 7 {
		t.Errorf("list = %+v, %v; want the count of the later change, 7", list, err)
	}
}

// A count that falls right before a claim makes its permit counts for this claim.
func TestCountFallsMeanwhile(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	p, url := behind(t, s, "layout=semaphore")
	d, a := open(t, url), newAdmin(t, s.Addr)
	a.create("/stile", "/stile/n", "/stile/n/locks", "/stile/n/leases")
	a.setCount("/stile/n/permits", "\x00\x00\x00\x01")
	c := permit("n", 1, 0)
	entered := make(chan driver.Place, 1)
	p.Hold(2) // its entrance comes, and it reads the line and the count
	go func() {
		place, err := d.Enter(t.Context(), c)
		if err != nil {
			t.Errorf("enter: %v", err)
		}
		entered <- place
	}()
	servertest.Until(t, "a request is held back", func() bool { return p.Held() > 0 })
	a.setCount("/stile/n/permits", "\x00\x00\x00\x00")
	p.Pass()
	p.Arrive()
	place := <-entered
	if place.Holds || place.Ticket == 0 {
		t.Fatalf("enter = %+v; want to wait, as there are no permits any more", place)
	}
	c.Ticket = place.Ticket
	a.setCount("/stile/n/permits", "\x00\x00\x00\x01")
	if _, err := turn(t.Context(), d, c); err != nil {
		t.Errorf("once there is one again: %v", err)
	}
}
