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
		if _, err := d.Enter(context.WithoutCancel(t.Context()), drive.Claim("jam", "j")); err != nil {
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
		"of nobody":    {func(w http.ResponseWriter, lines []string) { fmt.Fprint(w, `{"item":3,"answer":{"left":true}}`+"\n") }, 0, false},
		"no JSON":      {func(w http.ResponseWriter, lines []string) { fmt.Fprint(w, "<html>\n") }, 0, false},
		"empty": {func(w http.ResponseWriter, lines []string) {
			fmt.Fprint(w, "{}\n", `{"item":1}`+"\n", `{"item":2,"answer":{"left":true}}`+"\n")
		}, 0, false},
		"of other calls": {func(w http.ResponseWriter, _ []string) {
			for i := range 3 {
				fmt.Fprintf(w, `{"item":%d,"answer":{"left":true}}`+"\n", i)
			}
		}, 0, false},
		"said to be text": {func(w http.ResponseWriter, lines []string) {
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprint(w, strings.Join(lines, ""))
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

// A caller that gives up while its call waits leaves the queue.
func TestQueuedCallGivesUp(t *testing.T) {
	t.Parallel()
	j := newJam()
	addr, _ := service(t, memory.NewStore().Driver(), j.stand)
	d := open(t, addr)
	remote.SetPatience(d, time.Hour)
	remote.Jam(d)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := make(chan error, 1)
	go func() { gone <- entering(d, ctx, drive.Claim("a", "x"))() }()
	until(t, "in the queue", func() bool { return remote.Queued(d) == 1 })
	cause := errors.New("not any more")
	cancel(cause)
	err := <-gone
	judge(t, "a call that waits", err, driver.OutcomeUnsent, false)
	if !errors.Is(err, cause) || remote.Queued(d) != 0 {
		t.Errorf("a caller that gives up gets %v, and %d calls wait; want its cause, and none", err, remote.Queued(d))
	}
}

// A pair is two calls that share a request. Their callers may give up.
type pair struct {
	first, second         chan error
	giveUp, secondGivesUp func()
}

// begin begins two Enters in one batch.
func begin(t *testing.T, d driver.Driver, first, second *driver.Claim) *pair {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	other, cancelOther := context.WithCancel(t.Context())
	t.Cleanup(cancelOther)
	p := &pair{make(chan error, 1), make(chan error, 1), cancel, cancelOther}
	remote.SetPatience(d, time.Hour)
	remote.Jam(d)
	go func() { p.first <- entering(d, ctx, first)() }()
	until(t, "in the queue", func() bool { return remote.Queued(d) == 1 })
	go func() { p.second <- entering(d, other, second)() }()
	until(t, "both are in the queue", func() bool { return remote.Queued(d) == 2 })
	remote.Unjam(d)
	return p
}

// A caller that gives up while its batch still looks for a connection leaves it to the others. Its call may be sent yet.
func TestGivesUpBeforeBatchIsSent(t *testing.T) {
	t.Parallel()
	addr, _ := service(t, memory.NewStore().Driver(), nobody)
	d := open(t, addr)
	dials, dial := make(chan struct{}, 10), make(chan struct{})
	remote.SetDial(d, func(string) {
		dials <- struct{}{}
		<-dial
	})
	p := begin(t, d, drive.Claim("a", "x"), drive.Claim("b", "x"))
	<-dials
	p.giveUp()
	judge(t, "a call that may be sent", <-p.first, driver.OutcomeUnknown, false)
	close(dial)
	if err := <-p.second; err != nil {
		t.Errorf("the other call = %v; want its answer", err)
	}
}

// Trap: a call that was given up must not run on at its service, for the others of its batch, beside the next call about its claim.
// The others do not notice. If all have given up, the batch ends.
func TestGivenUpCallEnds(t *testing.T) {
	t.Parallel()
	h := &hanging{Driver: memory.NewStore().Driver(), came: make(chan string, 2), ended: make(chan string, 2)}
	addr, _ := service(t, h, nobody)
	d := open(t, addr)
	claim := drive.Claim("slow/a", "x")
	p := begin(t, d, claim, drive.Claim("slow/b", "x"))
	<-h.came
	<-h.came
	p.giveUp()
	judge(t, "a call that was sent", <-p.first, driver.OutcomeUnknown, false)
	remote.SetPatience(d, 0)
	if err := d.Leave(t.Context(), &driver.Release{Claim: claim}); !errors.Is(err, driver.ErrGone) {
		t.Errorf("the next call about the claim = %v; want the store's answer", err)
	}
	if name := <-h.ended; name != claim.Name || len(p.second) > 0 {
		t.Errorf("the call about %s ended, and %d of the others; want only that about %s", name, len(p.second), claim.Name)
	}
	p.secondGivesUp()
	judge(t, "the other call", <-p.second, driver.OutcomeUnknown, false)
	<-h.ended // nobody waits for the batch
}

// A hanging store does not answer Enters of names that begin with slow/, or not before goOn.
type hanging struct {
	*memory.Driver
	came, ended chan string
	goOn        map[string]chan struct{} // by name
}

func (h *hanging) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if !strings.HasPrefix(c.Name, "slow/") {
		return h.Driver.Enter(ctx, c)
	}
	h.came <- c.Name
	select {
	case <-ctx.Done():
		h.ended <- c.Name
		return driver.Place{}, driver.Ended(ctx, true)
	case <-h.goOn[c.Name]:
		return h.Driver.Enter(ctx, c)
	}
}

// Trap: the last caller that waits for a batch gets its answer, and the call of another, which has given up, goes on for nobody.
func TestBatchEndsWithLastAnswer(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	h := &hanging{
		Driver: memory.NewStore().Driver(), came: make(chan string, 2), ended: make(chan string, 2),
		goOn: map[string]chan struct{}{"slow/b": goOn},
	}
	addr, _ := service(t, h, nobody)
	d := open(t, addr)
	p := begin(t, d, drive.Claim("slow/a", "x"), drive.Claim("slow/b", "x"))
	<-h.came
	<-h.came
	p.giveUp()
	judge(t, "a call that was sent", <-p.first, driver.OutcomeUnknown, false)
	close(goOn)
	if err := <-p.second; err != nil {
		t.Errorf("the other call = %v; want its answer", err)
	}
	until(t, "the call that was given up has ended", func() bool { return len(h.ended) == 1 })
}

// Trap: an answer that has all its lines and does not end, as behind a proxy, must not keep its connection.
func TestAnswerDoesNotEnd(t *testing.T) {
	t.Parallel()
	j, ended := newJam(), make(chan struct{}, 1)
	j.batch = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		w.Header().Set("Content-Type", api.Lines)
		fmt.Fprint(w, answer.Body.String())
		_ = http.NewResponseController(w).Flush() // the client tells
		<-r.Context().Done()
		ended <- struct{}{}
	}
	addr, _ := service(t, memory.NewStore().Driver(), j.stand)
	p := begin(t, open(t, addr), drive.Claim("a", "x"), drive.Claim("b", "x"))
	for _, got := range []chan error{p.first, p.second} {
		if err := <-got; err != nil {
			t.Errorf("a call = %v; want its answer", err)
		}
	}
	until(t, "the connection has ended", func() bool { return len(ended) == 1 })
}

// However many calls wait, they wait for one request: what the next cannot carry goes beside it.
func TestMoreThanOneBatch(t *testing.T) {
	t.Parallel()
	j := newJam()
	j.batch = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		select {
		case <-j.over:
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}
	addr, _ := service(t, memory.NewStore().Driver(), j.stand)
	d := open(t, addr)
	remote.SetPatience(d, time.Hour)
	remote.Jam(d)
	const n = 2*api.MaxItems + 2
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	for i := range n {
		all.Go(func() {
			if _, err := d.Enter(t.Context(), drive.Claim(fmt.Sprint("a/", i), "x")); err != nil {
				t.Errorf("call %d = %v", i, err)
			}
		})
	}
	until(t, "all calls are in the queue", func() bool { return remote.Queued(d) == n })
	remote.Unjam(d)
	until(t, "three batches are under way", func() bool { return j.batches.Load() == 3 })
	close(j.over)
	all.Wait()
	if got := j.items.Load(); got != n {
		t.Errorf("%d items; want %d", got, n)
	}
}

// A service of an earlier revision has no batches: its client sends each call alone. The same status of a proxy says nothing of the
// outcome.
func TestServiceWithoutBatches(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		batch func(w http.ResponseWriter, r *http.Request, next http.Handler)
		apart bool
	}{
		"service": {func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			r.URL.Path = "/v1/unknown"
			next.ServeHTTP(w, r)
		}, true},
		"proxy that changes the type": {func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			r.Header.Set("Content-Type", "text/plain")
			next.ServeHTTP(w, r)
		}, true},
		"proxy": {func(w http.ResponseWriter, r *http.Request, _ http.Handler) { http.NotFound(w, r) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, store := newJam(), memory.NewStore()
			j.batch = tt.batch
			close(j.over)
			addr, _ := service(t, store.Driver(), j.stand)
			d := open(t, addr)
			p := begin(t, d, drive.Claim("a", "x"), drive.Claim("b", "x"))
			for _, got := range []chan error{p.first, p.second} {
				if err := <-got; !tt.apart {
					judge(t, "a call that a proxy does not know", err, driver.OutcomeUnknown, false)
				} else if err != nil {
					t.Errorf("a call = %v; want it sent alone", err)
				}
			}
			remote.Jam(d)
			if _, err := d.Enter(t.Context(), drive.Claim("c", "x")); err != nil {
				t.Errorf("a call after the batch = %v; want it sent alone, at once", err)
			}
			if n := j.batches.Load(); n != 1 {
				t.Errorf("%d batches; want one", n)
			}
		})
	}
}

// A client that is closed ends its batches, and the calls that wait.
func TestCloseEndsBatch(t *testing.T) {
	t.Parallel()
	h := &hanging{Driver: memory.NewStore().Driver(), came: make(chan string, 2), ended: make(chan string, 2)}
	addr, _ := service(t, h, nobody)
	d := open(t, addr)
	p := begin(t, d, drive.Claim("slow/a", "x"), drive.Claim("slow/b", "x"))
	<-h.came
	<-h.came
	waits := make(chan error, 2)
	for i := range 2 {
		go func() { waits <- entering(d, t.Context(), drive.Claim(fmt.Sprint("a/", i), "x"))() }()
	}
	until(t, "in the queue", func() bool { return remote.Queued(d) == 2 })
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	for _, got := range []chan error{p.first, p.second, waits, waits} {
		if err := <-got; !errors.Is(err, driver.ErrClosed) {
			t.Errorf("a call of a closed client = %v; want ErrClosed", err)
		}
	}
}

// A call that hangs keeps others waiting once, and no longer than for their patience.
func TestBatchDoesNotWaitLong(t *testing.T) {
	t.Parallel()
	j := newJam()
	addr, _ := service(t, memory.NewStore().Driver(), j.stand)
	d := open(t, addr)
	defer close(j.over)
	j.fill(t, d)
	for range 2 {
		if err := d.Leave(t.Context(), &driver.Release{Claim: drive.Claim("a", "x")}); !errors.Is(err, driver.ErrGone) {
			t.Errorf("a release beside a call that hangs = %v; want the store's answer", err)
		}
		remote.SetPatience(d, time.Hour)
	}
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
