package stilehttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

func open(t *testing.T, d *memory.Driver) *stile.Client {
	t.Helper()
	c, err := stile.New(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// All machines together have at most as many requests in progress as there are permits, until the answers' bodies end.
func TestTransport(t *testing.T) {
	var now, most atomic.Int32
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for n := now.Add(1); ; {
			if was := most.Load(); n <= was || most.CompareAndSwap(was, n) {
				break
			}
		}
		if _, err := io.Copy(w, r.Body); err != nil {
			t.Error(err)
		}
		now.Add(-1)
	}))
	defer vendor.Close()
	store := memory.NewStore()
	var calls sync.WaitGroup
	for range 4 {
		client := &http.Client{Transport: &Transport{Permit: open(t, store.Driver()).Permit("vendor", 1, 2)}}
		for range 10 {
			calls.Go(func() {
				answer, err := client.Post(vendor.URL, "text/plain", strings.NewReader("paid"))
				if err != nil {
					t.Error(err)
					return
				}
				defer answer.Body.Close()
				if text, err := io.ReadAll(answer.Body); string(text) != "paid" || err != nil {
					t.Errorf("the answer is %q (%v)", text, err)
				}
			})
		}
	}
	calls.Wait()
	if most.Load() > 2 {
		t.Errorf("%d requests at a time with two permits", most.Load())
	}
}

// A permit is held until the body of the answer is closed, and longer with AtLeast.
func TestTransportHolds(t *testing.T) {
	for _, tt := range []struct {
		name    string
		atLeast time.Duration
		base    roundTrip
		end     func(*http.Response) error
		want    error // of a try after it
	}{
		{"read to the end", 0, answer("text"), func(a *http.Response) error { _, err := io.ReadAll(a.Body); return err }, nil},
		{"closed", 0, answer("text"), func(a *http.Response) error { return errors.Join(a.Body.Close(), a.Body.Close()) }, nil},
		{"kept", time.Hour, answer("text"), func(a *http.Response) error { return a.Body.Close() }, stile.ErrHeld},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				permit := open(t, memory.New()).Permit("vendor", 1, 1)
				tr := &Transport{Permit: permit, Base: tt.base, AtLeast: tt.atLeast, Wait: 200 * time.Millisecond}
				a, err := tr.RoundTrip(request(t))
				if err != nil {
					t.Fatal(err)
				}
				body := &closer{}
				r := request(t)
				r.Body = body
				if _, err := tr.RoundTrip(r); !errors.Is(err, stile.ErrHeld) || !body.closed {
					t.Errorf("a second request: %v, body closed: %v; want %v", err, body.closed, stile.ErrHeld)
				}
				if err := tt.end(a); err != nil {
					t.Error(err)
				}
				if lease, err := permit.TryLock(t.Context()); !errors.Is(err, tt.want) {
					t.Errorf("after it: %v, want %v", err, tt.want)
				} else if err == nil {
					release(t, lease)
				}
			})
		})
	}
}

// A request that fails releases its permit, and one whose permit is lost ends.
func TestTransportFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory.New()
		client := open(t, d)
		permit := client.Permit("vendor", 1, 1)
		broken := errors.New("broken")
		tr := &Transport{Permit: permit, Base: roundTrip(func(r *http.Request) (*http.Response, error) { return nil, broken })}
		for range 2 {
			if _, err := tr.RoundTrip(request(t)); !errors.Is(err, broken) {
				t.Errorf("got %v, want %v", err, broken)
			}
		}
		tr = &Transport{Permit: permit.With(stile.LockOptions{TTL: 300 * time.Millisecond}), Base: roundTrip(func(r *http.Request) (*http.Response, error) {
			if stile.Token(r.Context()) == 0 {
				t.Error("the request has no lease")
			}
			if _, err := client.Break(r.Context(), "vendor", stile.BreakOptions{Head: true}); err != nil {
				t.Error(err)
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}
		if _, err := tr.RoundTrip(request(t)); !errors.Is(err, stile.ErrLost) {
			t.Errorf("got %v, want %v", err, stile.ErrLost)
		}
		client.Close()
		if _, err := tr.RoundTrip(request(t)); !errors.Is(err, stile.ErrClosed) {
			t.Errorf("after Close: %v, want %v", err, stile.ErrClosed)
		}
	})
}

// An answer without a body, from a fake server, releases the permit, since nobody closes it.
func TestTransportWithoutBody(t *testing.T) {
	for _, answer := range []*http.Response{{StatusCode: http.StatusNoContent}, nil} {
		permit := open(t, memory.New()).Permit("vendor", 1, 1)
		tr := &Transport{Permit: permit, Base: roundTrip(func(*http.Request) (*http.Response, error) { return answer, nil })}
		if got, err := tr.RoundTrip(request(t)); got != answer || err != nil {
			t.Errorf("got %v, %v; want %v", got, err, answer)
		}
		if lease, err := permit.TryLock(t.Context()); err != nil {
			t.Errorf("after it: %v", err)
		} else {
			release(t, lease)
		}
	}
}

// A request that panics releases its permit.
func TestTransportPanics(t *testing.T) {
	permit := open(t, memory.New()).Permit("vendor", 1, 1)
	tr := &Transport{Permit: permit, Base: roundTrip(func(*http.Request) (*http.Response, error) { panic("no route") })}
	func() {
		defer func() {
			if v := recover(); v != "no route" {
				t.Errorf("panic %v", v)
			}
		}()
		tr.RoundTrip(request(t)) //nolint:bodyclose,errcheck // it panics
	}()
	lease, err := permit.TryLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	release(t, lease)
}

// A writable body stays writable, for protocols to which the answer switches.
func TestTransportSwitches(t *testing.T) {
	tr := &Transport{Permit: open(t, memory.New()).Permit("vendor", 1, 1), Base: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: struct {
			io.Closer
			io.ReadWriter
		}{io.NopCloser(nil), &bytes.Buffer{}}}, nil
	})}
	a, err := tr.RoundTrip(request(t))
	if err != nil {
		t.Fatal(err)
	}
	if w, ok := a.Body.(io.Writer); !ok {
		t.Errorf("the body is a %T, which cannot be written to", a.Body)
	} else if _, err := w.Write([]byte("ping")); err != nil {
		t.Error(err)
	}
	a.Body.Close()
}

// Each error has its status.
func TestHandlers(t *testing.T) {
	byName := func(c *stile.Client) func(*http.Request) *stile.Lock {
		return func(r *http.Request) *stile.Lock { return c.Mutex(strings.TrimPrefix(r.URL.Path, "/")) }
	}
	for _, tt := range []struct {
		name, path string
		limit      bool
		o          *Options
		before     func(t *testing.T, d *memory.Driver, c *stile.Client)
		status     int
		after      string // Retry-After
	}{
		{name: "free", path: "/a", status: 204},
		{name: "held", path: "/a", before: hold, status: 409, after: "1"},
		{name: "held, waited for", path: "/a", o: &Options{Wait: 200 * time.Millisecond, RetryAfter: 1500 * time.Millisecond}, before: hold, status: 409, after: "2"},
		{name: "held, as WebDAV says it", path: "/a", o: &Options{Status: http.StatusLocked}, before: hold, status: 423, after: "1"},
		{name: "no name", path: "/", status: 400},
		{name: "a long name", path: "/" + strings.Repeat("a", 300), status: 400},
		{name: "no store", path: "/a", before: func(_ *testing.T, d *memory.Driver, _ *stile.Client) { d.SetLink(memory.Refused) }, status: 503, after: "5"},
		{name: "closed", path: "/a", before: func(_ *testing.T, _ *memory.Driver, c *stile.Client) { c.Close() }, status: 503, after: "5"},
		{name: "within the limit", path: "/a", limit: true, status: 204},
		{name: "above the limit", path: "/a", limit: true, before: func(t *testing.T, _ *memory.Driver, c *stile.Client) {
			if _, err := c.Permit("limit", 2, 2).TryLock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}, status: 429, after: "1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := memory.New()
				client := open(t, d)
				if tt.before != nil {
					tt.before(t, d, client)
				}
				next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if stile.FromContext(r.Context()).Check() != nil {
						t.Error("the handler runs without the lease")
					}
					w.WriteHeader(http.StatusNoContent)
				})
				reported := 0
				o := Options{}
				if tt.o != nil {
					o = *tt.o
				}
				o.Report = func(*http.Request, error) { reported++ }
				h := Handler(byName(client), next, &o)
				if tt.limit {
					h = Limit(client.Permit("limit", 1, 2), next, &o)
				}
				for range 2 { // the first has released its lock
					w := httptest.NewRecorder()
					h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, tt.path, http.NoBody))
					if w.Code != tt.status || w.Header().Get("Retry-After") != tt.after {
						t.Errorf("status %d, Retry-After %q: %s; want %d and %q", w.Code, w.Header().Get("Retry-After"), w.Body, tt.status, tt.after)
					}
				}
				if want := map[bool]int{true: 0, false: 2}[tt.status == 204]; reported != want {
					t.Errorf("%d reports, want %d", reported, want)
				}
			})
		})
	}
}

// A mistake of the program is not reported as the client's.
func TestHandlersMisused(t *testing.T) {
	client := open(t, memory.New())
	never := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler runs without a lock") })
	byLock := func(l *stile.Lock) http.Handler {
		return Handler(func(*http.Request) *stile.Lock { return l }, never, nil)
	}
	for name, h := range map[string]http.Handler{
		"ttl":             byLock(client.Mutex("a").With(stile.LockOptions{TTL: -time.Second})),
		"permits":         byLock(client.Permit("a", 3, 2)),
		"no lock":         byLock(nil),
		"zero lock":       byLock(&stile.Lock{}),
		"zero client":     byLock((&stile.Client{}).Mutex("a")),
		"joined with one": byLock(stile.Join(client.Mutex("a"), client.Mutex("b").With(stile.LockOptions{TTL: -time.Second}))),
		"no permit":       Limit(nil, never, nil),
		"permit's name":   Limit(client.Permit("", 1, 1), never, nil),
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody))
		if w.Code != http.StatusInternalServerError || w.Header().Get("Retry-After") != "" {
			t.Errorf("%s: status %d, Retry-After %q: %s", name, w.Code, w.Header().Get("Retry-After"), w.Body)
		}
	}
}

// A request whose context ends while it waits gets an answer: its client may still listen.
func TestHandlerEnds(t *testing.T) {
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"before": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		},
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		},
		"stopped": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(errors.New("the server stops")) })
			return ctx, func() { cancel(nil) }
		},
	} {
		for _, limit := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				client := open(t, memory.New())
				hold(t, nil, client)
				ctx, cancel := end(t.Context())
				defer cancel()
				next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler runs without a lock") })
				h := Handler(func(*http.Request) *stile.Lock { return client.Mutex("a") }, next, &Options{Wait: time.Minute})
				if limit {
					h = Limit(client.Mutex("a"), next, &Options{Wait: time.Minute})
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody))
				if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
					t.Errorf("%s, limit %v: status %d, Retry-After %q", name, limit, w.Code, w.Header().Get("Retry-After"))
				}
			})
		}
	}
}

// When a handler loses its lease, its context ends, and the loss is reported. A panic releases the lock.
func TestHandlerLoses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := open(t, memory.New())
		lock := client.Mutex("a").With(stile.LockOptions{TTL: 300 * time.Millisecond})
		var cause, reported error
		h := Handler(func(*http.Request) *stile.Lock { return lock }, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/panic" {
				panic(http.ErrAbortHandler)
			}
			if _, err := client.Break(r.Context(), "a", stile.BreakOptions{Head: true}); err != nil {
				t.Error(err)
			}
			<-r.Context().Done()
			cause = context.Cause(r.Context())
		}), &Options{Report: func(_ *http.Request, err error) { reported = err }})
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody))
		if !errors.Is(cause, stile.ErrLost) || !errors.Is(reported, stile.ErrLost) {
			t.Errorf("the context ended by %v, and %v was reported; want %v", cause, reported, stile.ErrLost)
		}
		func() {
			defer func() {
				if p, _ := recover().(error); !errors.Is(p, http.ErrAbortHandler) {
					t.Errorf("panic %v", p)
				}
			}()
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/panic", http.NoBody))
		}()
		lease, err := lock.TryLock(t.Context())
		if err != nil {
			t.Fatalf("after a panic: %v", err)
		}
		release(t, lease)
	})
}

func release(t *testing.T, lease *stile.Lease) {
	t.Helper()
	if err := lease.Unlock(); err != nil {
		t.Error(err)
	}
}

func hold(t *testing.T, _ *memory.Driver, c *stile.Client) {
	t.Helper()
	if _, err := c.Mutex("a").TryLock(t.Context()); err != nil {
		t.Fatal(err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(text string) roundTrip {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text))}, nil
	}
}

func request(t *testing.T) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
}

type closer struct{ closed bool }

func (*closer) Read([]byte) (int, error) { return 0, io.EOF }
func (c *closer) Close() error           { c.closed = true; return nil }
