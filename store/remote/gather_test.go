//go:build unix

package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/server"
	"github.com/stilelock/stile/store/memory"
	"github.com/stilelock/stile/store/remote"
)

// A jam stands before a service. Each Enter that comes alone waits until the jam ends.
type jam struct {
	came, over chan struct{}
	batches    atomic.Int64
	items      atomic.Int64
	batch      func(w http.ResponseWriter, r *http.Request, next http.Handler) // unless nil, answers batches
}

func newJam() *jam { return &jam{came: make(chan struct{}, 10), over: make(chan struct{})} }

func (j *jam) stand(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case api.Enter:
			j.came <- struct{}{}
			<-j.over
		case api.Batch:
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return // the client is gone
			}
			j.batches.Add(1)
			j.items.Add(int64(bytes.Count(body, []byte("\n"))))
			r.Body = io.NopCloser(bytes.NewReader(body))
			if j.batch != nil {
				j.batch(w, r, next)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("after 10 s: not %s", what)
		}
	}
}

// fill begins a call that goes alone. It lasts until the jam ends.
func (j *jam) fill(t *testing.T, d driver.Driver) {
	t.Helper()
	var jammed sync.WaitGroup
	t.Cleanup(jammed.Wait)
	jammed.Go(func() {
		if _, err := d.Enter(t.Context(), drive.Claim("jam", "j")); err != nil {
			t.Errorf("a call that goes alone = %v", err)
		}
	})
	<-j.came
}

// together makes some calls that go in one batch, and returns their errors.
func (j *jam) together(t *testing.T, d driver.Driver, calls ...func() error) []error {
	t.Helper()
	remote.SetPatience(d, time.Hour)
	j.fill(t, d)
	errs := make([]error, len(calls))
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() { errs[i] = call() })
	}
	until(t, "all calls are in the queue", func() bool { return remote.Queued(d) == len(calls) })
	close(j.over)
	all.Wait()
	return errs
}

func entering(d driver.Driver, ctx context.Context, c *driver.Claim) func() error {
	return func() error {
		_, err := d.Enter(ctx, c)
		return err
	}
}

// While a request is under way, others share the next. Each has its own answer, and its own refusal.
func TestManyShareRequests(t *testing.T) {
	t.Parallel()
	j := newJam()
	addr, _ := service(t, memory.NewStore().Driver(), j.stand)
	d := open(t, addr)
	other := drive.Claim("wide", "y")
	other.Weight, other.Capacity = 1, 2
	leaves := drive.Claim("c", "x")
	calls := []func() error{
		func() error { return d.Leave(t.Context(), &driver.Release{Claim: leaves}) },
		entering(d, t.Context(), drive.Claim("bad name\n", "x")),
	}
	for i := range 20 {
		calls = append(calls, func() error {
			p, err := d.Enter(t.Context(), drive.Claim(fmt.Sprint("a/", i), "x"))
			if err == nil && (!p.Holds || p.Ticket == 0) {
				err = fmt.Errorf("the place is %+v", p)
			}
			return err
		})
	}
	for i, err := range j.together(t, d, calls...) {
		switch {
		case i == 0:
			if !errors.Is(err, driver.ErrGone) {
				t.Errorf("the release of no claim = %v; want ErrGone", err)
			}
		case i == 1:
			judge(t, "a bad name", err, driver.OutcomeRefused, false)
		case err != nil:
			t.Errorf("call %d = %v", i, err)
		}
	}
	if j.batches.Load() != 1 || j.items.Load() != int64(len(calls)) {
		t.Errorf("%d batches with %d items; want one with %d", j.batches.Load(), j.items.Load(), len(calls))
	}
}

// A refusal by the store is the refusal of one item, with what the driver knows.
func TestOneOfBatchIsRefused(t *testing.T) {
	t.Parallel()
	j, store := newJam(), memory.NewStore()
	drive.Holds(t, store.Driver(), drive.Claim("a", "x"))
	addr, _ := service(t, store.Driver(), j.stand)
	d := open(t, addr)
	permits := drive.Claim("a", "y")
	permits.Weight, permits.Capacity = 1, 2
	errs := j.together(t, d, entering(d, t.Context(), permits), entering(d, t.Context(), drive.Claim("b", "y")))
	if e, ok := errors.AsType[*driver.CapacityError](errs[0]); !ok || e.Want != 2 {
		t.Errorf("another capacity = %v; want its CapacityError", errs[0])
	}
	if errs[1] != nil {
		t.Errorf("the other = %v", errs[1])
	}
}

// If the answer to a batch is lost, the outcome of each item without an answer is unknown. It is not sent again.
func TestBatchIsLost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer      func(w http.ResponseWriter, lines []string)
		known       int // items with an answer
		unreachable bool
	}{
		"cut":          {func(http.ResponseWriter, []string) { panic(http.ErrAbortHandler) }, 0, true},
		"cut later":    {func(w http.ResponseWriter, lines []string) { cutAfter(w, lines[0]) }, 1, true},
		"cut in lines": {func(w http.ResponseWriter, lines []string) { cutAfter(w, lines[0], lines[1][:10]) }, 1, true},
		"too short":    {func(w http.ResponseWriter, lines []string) { fmt.Fprint(w, lines[0], lines[2]) }, 2, true},
		"twice":        {func(w http.ResponseWriter, lines []string) { fmt.Fprint(w, lines[0], lines[0], lines[1], lines[2]) }, 1, false},
		"of nobody":    {func(w http.ResponseWriter, lines []string) { fmt.Fprint(w, `{"item":3,"left":{"left":true}}`+"\n") }, 0, false},
		"no JSON":      {func(w http.ResponseWriter, lines []string) { fmt.Fprint(w, "<html>\n") }, 0, false},
		"empty": {func(w http.ResponseWriter, lines []string) {
			fmt.Fprint(w, "{}\n", `{"item":1}`+"\n", `{"item":2,"left":{"left":true}}`+"\n")
		}, 0, false},
		"of a proxy": {func(w http.ResponseWriter, _ []string) { w.WriteHeader(http.StatusBadGateway) }, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJam()
			j.batch = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				answer := httptest.NewRecorder()
				next.ServeHTTP(answer, r)
				w.Header().Set("Content-Type", api.Lines)
				tt.answer(w, strings.SplitAfter(answer.Body.String(), "\n"))
			}
			addr, _ := service(t, memory.NewStore().Driver(), j.stand)
			d := open(t, addr, addr)
			var calls []func() error
			for i := range 3 {
				calls = append(calls, entering(d, t.Context(), drive.Claim(fmt.Sprint("a/", i), "x")))
			}
			known := 0
			for _, err := range j.together(t, d, calls...) {
				if err == nil {
					known++
				} else {
					judge(t, "a call without its answer", err, driver.OutcomeUnknown, tt.unreachable)
				}
			}
			if known != tt.known || j.batches.Load() != 1 {
				t.Errorf("%d calls have an answer, of %d batches; want %d, of one", known, j.batches.Load(), tt.known)
			}
		})
	}
}

// cutAfter sends a part of an answer, and breaks the connection.
func cutAfter(w http.ResponseWriter, parts ...string) {
	for _, part := range parts {
		fmt.Fprint(w, part)
	}
	_ = http.NewResponseController(w).Flush() // the client tells
	panic(http.ErrAbortHandler)
}

// A caller that gives up gets its error at once: unsent if its call waits, else of unknown outcome. The others' request goes on,
// until all have given up.
func TestOneOfBatchGivesUp(t *testing.T) {
	t.Parallel()
	j, reached, ended, goOn := newJam(), make(chan struct{}), make(chan struct{}), make(chan struct{})
	j.batch = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if j.batches.Load() == 1 {
			reached <- struct{}{}
			<-goOn
			next.ServeHTTP(w, r)
			return
		}
		reached <- struct{}{}
		<-r.Context().Done()
		close(ended)
	}
	addr, _ := service(t, memory.NewStore().Driver(), j.stand)
	d := open(t, addr)
	remote.SetPatience(d, time.Hour)
	j.fill(t, d)
	stay := make(chan error, 3)
	begin := func(ctx context.Context, name string) {
		go func() { stay <- entering(d, ctx, drive.Claim(name, "x"))() }()
	}
	queued := func(n int) { until(t, "in the queue", func() bool { return remote.Queued(d) == n }) }

	waiting, cancel := context.WithCancelCause(t.Context())
	begin(waiting, "a")
	queued(1)
	cause := errors.New("not any more")
	cancel(cause)
	err := <-stay
	judge(t, "a call that waits", err, driver.OutcomeUnsent, false)
	if !errors.Is(err, cause) || remote.Queued(d) != 0 {
		t.Errorf("a caller that gives up gets %v, and %d calls wait; want its cause, and none", err, remote.Queued(d))
	}

	sent, cancel := context.WithCancelCause(t.Context())
	gone := make(chan error, 1)
	go func() { gone <- entering(d, sent, drive.Claim("b", "x"))() }()
	queued(1)
	begin(t.Context(), "c")
	queued(2)
	close(j.over)
	<-reached
	cancel(cause)
	judge(t, "a call that was sent", <-gone, driver.OutcomeUnknown, false)
	close(goOn)
	if err := <-stay; err != nil {
		t.Errorf("the other call = %v", err)
	}

	both, cancel := context.WithCancelCause(t.Context())
	remote.Jam(d)
	begin(both, "e")
	begin(both, "f")
	queued(2)
	remote.Unjam(d)
	<-reached
	cancel(cause)
	for range 2 {
		judge(t, "one of two that give up", <-stay, driver.OutcomeUnknown, false)
	}
	<-ended
}

// A frozen host, or a slow call, keeps nobody else from sending.
func TestBatchDoesNotWaitLong(t *testing.T) {
	t.Parallel()
	j := newJam()
	defer close(j.over)
	addr, _ := service(t, memory.NewStore().Driver(), j.stand)
	d := open(t, addr)
	ctx, cancel := context.WithCancel(t.Context())
	var jammed sync.WaitGroup
	jammed.Go(func() { _, _ = d.Enter(ctx, drive.Claim("jam", "j")) }) // ends with the test
	<-j.came
	if err := d.Leave(drive.Timely(t), &driver.Release{Claim: drive.Claim("a", "x")}); !errors.Is(err, driver.ErrGone) {
		t.Errorf("a release beside a call that hangs = %v; want the store's answer", err)
	}
	cancel()
	jammed.Wait()
}

// An item that meets a bound of the service is sent again when the service says.
func TestItemIsBusy(t *testing.T) {
	t.Parallel()
	j := newJam()
	s, err := server.New(memory.NewStore().Driver(), &server.Options{MaxRate: 3})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(j.stand(s))
	t.Cleanup(web.Close)
	t.Cleanup(s.EndWaits)
	d := open(t, web.Listener.Addr().String())
	var calls []func() error
	for i := range 6 {
		calls = append(calls, entering(d, t.Context(), drive.Claim(fmt.Sprint("a/", i), "x")))
	}
	begun := time.Now()
	for i, err := range j.together(t, d, calls...) {
		if err != nil {
			t.Errorf("call %d = %v", i, err)
		}
	}
	if took := time.Since(begun); took < time.Second {
		t.Errorf("7 calls at a service that takes 3 a second took %v; want a pause", took)
	}
}

// If the service serves another store, no item enters.
func TestBatchAtOtherStore(t *testing.T) {
	t.Parallel()
	j := newJam()
	j.batch = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.Header.Set(api.StoreID, "another")
		next.ServeHTTP(w, r)
	}
	store := memory.NewStore()
	addr, _ := service(t, store.Driver(), j.stand)
	d := open(t, addr)
	errs := j.together(t, d, entering(d, t.Context(), drive.Claim("a", "x")), entering(d, t.Context(), drive.Claim("b", "x")))
	for _, err := range errs {
		if err == nil || !driver.NotApplied(err) {
			t.Errorf("enter at another store = %v; want a refusal", err)
		}
	}
}

// Many goroutines lock and unlock while the first of two hosts freezes: each release is done.
func TestManyReleaseWhileFrozen(t *testing.T) {
	t.Parallel()
	store := memory.NewStore()
	first, _ := service(t, store.Driver(), nobody)
	second, _ := service(t, store.Driver(), nobody)
	p := servertest.NewProxy(t, first)
	c, err := stile.Open(t.Context(), "stile://"+p.Addr+","+second, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	leases := make([]*stile.Lease, 32)
	for i := range leases {
		if leases[i], err = c.Mutex(fmt.Sprint("a/", i)).Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	p.Freeze(true, true)
	var all sync.WaitGroup
	for _, lease := range leases {
		all.Go(func() {
			if err := lease.Unlock(); err != nil {
				t.Errorf("the release = %v; want nil", err)
			}
		})
	}
	all.Wait()
	if n := drive.Listed(t, store.Driver()); n != 0 {
		t.Errorf("%d claims are left; want none", n)
	}
}
