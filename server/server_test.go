package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/server"
	"github.com/stilelock/stile/store/memory"
)

// A fake is a store with calls that a test can replace. It records each Leave.
type fake struct {
	*memory.Driver
	traits func(*driver.Traits)
	enter  func(context.Context, *driver.Claim) (driver.Place, error)
	await  func(context.Context, *driver.Claim) (driver.Place, error)
	renew  func(context.Context, []*driver.Claim) []driver.Renewal
	leave  func(*driver.Release) error
	left   chan driver.Claim
}

func newFake() *fake { return &fake{Driver: memory.New(), left: make(chan driver.Claim, 10)} }

func (f *fake) Traits() driver.Traits {
	t := f.Driver.Traits()
	if f.traits != nil {
		f.traits(&t)
	}
	return t
}

func (f *fake) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if f.enter != nil {
		return f.enter(ctx, c)
	}
	return f.Driver.Enter(ctx, c)
}

func (f *fake) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if f.await != nil {
		return f.await(ctx, c)
	}
	return f.Driver.Await(ctx, c)
}

func (f *fake) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	if f.renew != nil {
		return f.renew(ctx, cs)
	}
	return f.Driver.Renew(ctx, cs)
}

func (f *fake) Leave(ctx context.Context, l *driver.Release) error {
	f.left <- *l.Claim
	if f.leave != nil {
		return f.leave(l)
	}
	return f.Driver.Leave(ctx, l)
}

// newServer returns a server of a store. It ends, and the store is closed, at the end of the test.
func newServer(t *testing.T, d driver.Driver, o *server.Options) *server.Server {
	t.Helper()
	s, err := server.New(d, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.EndWaits()
		d.Close()
	})
	return s
}

// start starts a server of a store, and returns it with its URL.
func start(t *testing.T, d driver.Driver, o *server.Options) (*server.Server, string) {
	t.Helper()
	s := newServer(t, d, o)
	return s, serve(t, s, t.Output())
}

// serve serves by a server on a port of this machine, and returns the URL. The errors of net/http go to errs.
func serve(t *testing.T, s *server.Server, errs io.Writer) string {
	web := httptest.NewUnstartedServer(s)
	web.Config.ErrorLog = log.New(errs, "", 0)
	web.Start()
	t.Cleanup(func() {
		s.EndWaits()
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}

// claim returns the claim of a request.
func claim(id string, ticket int64) api.Claim {
	return api.Claim{Name: "a", ID: id, Weight: driver.All, Capacity: driver.All, TTL: time.Hour, Wait: time.Hour, Ticket: ticket}
}

func body(t testing.TB, q any) string {
	t.Helper()
	text, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// post sends a request as a program of this machine does, and returns the answer.
func post(ctx context.Context, url, text string) (status int, answer []byte, err error) {
	return postBy(ctx, http.DefaultClient, url, text)
}

func postBy(ctx context.Context, by *http.Client, url, text string) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", api.JSON)
	res, err := by.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// asks is post; it fails without an answer. It returns the error in the answer, or nil.
func asks(t testing.TB, url, text string) (status int, failed error) {
	t.Helper()
	status, answer, err := post(t.Context(), url, text)
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := api.ReadError(answer); ok {
		return status, e.Err()
	}
	return status, nil
}

// A server refuses a store that frees the locks of a client when its connection ends.
func TestOwnClientsAreRefused(t *testing.T) {
	f := newFake()
	f.traits = func(t *driver.Traits) { t.OwnClient = true }
	if _, err := server.New(f, nil); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("a store with clients of their own: %v; want ErrUnsupported", err)
	}
}

// Trap: in some stores an Enter that arrives after its claim was removed enters again. When the client hears that the claim
// is gone, nothing of it remains.
func TestGoneByTicketLeavesByID(t *testing.T) {
	for _, tt := range []struct {
		name    string
		leave   error
		outcome driver.Outcome
		gone    bool
	}{
		{"was left behind", nil, driver.OutcomeRefused, true},
		{"nothing is left", driver.ErrGone, driver.OutcomeRefused, true},
		{"cannot be removed", driver.Refused(errors.New("no")), driver.OutcomeUnknown, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake()
			f.enter = func(context.Context, *driver.Claim) (driver.Place, error) { return driver.Place{}, driver.ErrGone }
			f.leave = func(*driver.Release) error { return tt.leave }
			_, url := start(t, f, nil)
			_, err := asks(t, url+api.Enter, body(t, &api.EnterRequest{Claim: claim("x", 7)}))
			if errors.Is(err, driver.ErrGone) != tt.gone || driver.OutcomeOf(err) != tt.outcome {
				t.Errorf("enter = %v (%v); want gone %v, %v", err, driver.OutcomeOf(err), tt.gone, tt.outcome)
			}
			if c := <-f.left; c.ID != server.StoredID(c.Name, "x") || c.Ticket != 0 {
				t.Errorf("claim %s with ticket %d has left; want that of x, without a ticket", c.ID, c.Ticket)
			}
			_, err = asks(t, url+api.Enter, body(t, &api.EnterRequest{Claim: claim("x", 0)}))
			if !errors.Is(err, driver.ErrGone) || len(f.left) != 0 {
				t.Errorf("enter without a ticket = %v, and %d have left; want ErrGone, and none", err, len(f.left))
			}
		})
	}
}

// Trap: a client's next request may arrive while the server still has the earlier one, or before it. A driver gets one call
// at a time about a claim. A later call never cuts an Enter or a Leave short, but it ends a wait without news.
func TestOneCallPerClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		calls, finish := 0, make(chan struct{})
		one := func(ctx context.Context, wait func()) (driver.Place, error) {
			if calls++; calls > 1 {
				t.Errorf("a call began when %d others had not returned", calls-1)
			}
			wait()
			calls--
			return driver.Place{Ticket: 1}, ctx.Err()
		}
		f.enter = func(ctx context.Context, _ *driver.Claim) (driver.Place, error) { return one(ctx, func() { <-finish }) }
		f.await = func(ctx context.Context, _ *driver.Claim) (driver.Place, error) {
			return one(ctx, func() { <-ctx.Done() })
		}
		by := connected(t, f)
		enter, await := body(t, &api.EnterRequest{Claim: claim("x", 0)}), body(t, &api.AwaitRequest{Claim: claim("x", 1), Within: time.Minute})
		for _, order := range [][2]string{{api.Enter, api.Enter}, {api.Await, api.Enter}, {api.Enter, api.Await}, {api.Await, api.Await}} {
			finish = make(chan struct{})
			ends := make(chan string, 2)
			for _, path := range order {
				go func() {
					_, answer, err := postBy(t.Context(), by, inBubble+path, map[string]string{api.Enter: enter, api.Await: await}[path])
					if e, ok := api.ReadError(answer); ok {
						err = e.Err()
					}
					if err != nil {
						ends <- err.Error()
						return
					}
					ends <- ""
				}()
				synctest.Wait()
			}
			close(finish)
			for range order {
				if said := <-ends; said != "" {
					t.Errorf("of %v one is answered by %s; want a place", order, said)
				}
			}
		}
	})
}

// Trap: the earlier call may take long, for example at a frozen store. A call that waits for it waits only as long as its
// own request lasts, and then asks the store nothing.
func TestWaitForTheCallBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		entered, awaited, finish := 0, 0, make(chan struct{})
		f.enter = func(context.Context, *driver.Claim) (driver.Place, error) {
			entered++
			<-finish
			return driver.Place{Ticket: 1}, nil
		}
		f.await = func(context.Context, *driver.Claim) (driver.Place, error) {
			awaited++
			return driver.Place{Ticket: 1}, nil
		}
		by := connected(t, f)
		enter := func(ctx context.Context) error {
			_, _, err := postBy(ctx, by, inBubble+api.Enter, body(t, &api.EnterRequest{Claim: claim("x", 0)}))
			return err
		}
		first := make(chan error, 1)
		go func() { first <- enter(t.Context()) }()
		synctest.Wait()
		begin := time.Now()
		await := body(t, &api.AwaitRequest{Claim: claim("x", 1), Within: time.Minute})
		if status, answer, err := postBy(t.Context(), by, inBubble+api.Await, await); status != 200 || time.Since(begin) != api.MaxAwait {
			t.Errorf("await of a minute = %s, %v after %v; want a place after %v", answer, err, time.Since(begin), api.MaxAwait)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("enter = %v; want the end of its time", err)
		}
		synctest.Wait()
		close(finish)
		if err := <-first; err != nil {
			t.Error(err)
		}
		if err := enter(t.Context()); err != nil {
			t.Error(err)
		}
		if entered != 2 || awaited != 0 {
			t.Errorf("the store was asked to enter %d times, and to await %d times; want 2 and 0", entered, awaited)
		}
	})
}

// Trap: a client whose connection ends may already hold by another replica. Nobody sends Leave for it.
func TestNoLeaveForALostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		waits := 0
		f.await = func(ctx context.Context, _ *driver.Claim) (driver.Place, error) {
			waits++
			<-ctx.Done()
			return driver.Place{}, driver.Ended(ctx, true)
		}
		f.enter = func(ctx context.Context, c *driver.Claim) (driver.Place, error) {
			if c.Name == "queued" {
				return driver.Place{Ticket: 1, TTL: time.Hour}, nil
			}
			return f.await(ctx, c)
		}
		f.leave = func(*driver.Release) error { return nil }
		s, transport := serving(t, f)
		by := &http.Client{Transport: transport}
		for i, tt := range []struct{ method, path, text string }{
			{"POST", api.Enter, body(t, &api.EnterRequest{Claim: claim("x", 0)})},
			{"POST", api.Await, body(t, &api.AwaitRequest{Claim: claim("y", 1), Within: time.Minute})},
			{"PUT", "/v1/locks/a?wait=1m", ""},
			{"PUT", "/v1/locks/queued?wait=1m", ""},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, tt.method, inBubble+tt.path, strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", api.JSON)
			ended := make(chan error, 1)
			go func() {
				res, err := by.Do(r)
				if err == nil {
					res.Body.Close()
				}
				ended <- err
			}()
			synctest.Wait()
			cancel()
			if err := <-ended; err == nil || waits != i+1 {
				t.Errorf("%s %s ends with %v, and %d requests waited; want its cancellation, and %d", tt.method, tt.path, err, waits, i+1)
			}
			synctest.Wait()
		}
		s.EndWaits()
		if _, answer, err := postBy(t.Context(), by, inBubble+api.Leave, body(t, &api.LeaveRequest{Claim: claim("z", 1)})); err != nil {
			t.Error(answer, err)
		}
		if c := <-f.left; c.ID != server.StoredID(c.Name, "z") || len(f.left) > 0 {
			t.Errorf("claim %s has left, and %d more; want only that of z", c.ID, len(f.left))
		}
	})
}

// A wait ends after the client's time, without news. When the server ends, the wait ends with a hint to ask another server;
// the server still answers every other request.
func TestWaitsEnd(t *testing.T) {
	f := newFake()
	s, url := start(t, f, nil)
	for _, id := range []string{"holder", "waiter"} {
		if _, err := asks(t, url+api.Enter, body(t, &api.EnterRequest{Claim: claim(id, 0)})); err != nil {
			t.Fatal(err)
		}
	}
	_, answer, err := post(t.Context(), url+api.Await, body(t, &api.AwaitRequest{Claim: claim("waiter", 2), Within: time.Millisecond}))
	if err != nil || !strings.Contains(string(answer), `"place":{"ticket":"0","holds":false`) {
		t.Errorf("await of a millisecond = %s, %v; want a place that says nothing", answer, err)
	}
	begun := make(chan struct{}, 1)
	f.await = func(ctx context.Context, c *driver.Claim) (driver.Place, error) {
		begun <- struct{}{}
		return f.Driver.Await(ctx, c)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := asks(t, url+api.Await, body(t, &api.AwaitRequest{Claim: claim("waiter", 2), Within: time.Minute}))
		ended <- err
	}()
	<-begun
	s.EndWaits()
	_, late := asks(t, url+api.Await, body(t, &api.AwaitRequest{Claim: claim("waiter", 2), Within: time.Minute}))
	for _, err := range []error{<-ended, late} {
		if !driver.IsUnreachable(err) || driver.OutcomeOf(err) != driver.OutcomeUnsent {
			t.Errorf("await when the server ends = %v; want unreachable and unsent", err)
		}
	}
	if _, err := asks(t, url+api.Enter, body(t, &api.EnterRequest{Claim: claim("waiter", 2)})); err != nil {
		t.Errorf("enter when the server ends = %v; want nil", err)
	}
}

// Trap: a store that the server has closed counts as unreachable.
func TestClosedStore(t *testing.T) {
	f := newFake()
	_, url := start(t, f, nil)
	f.Close()
	status, err := asks(t, url+api.Enter, body(t, &api.EnterRequest{Claim: claim("x", 0)}))
	if status != http.StatusServiceUnavailable || errors.Is(err, driver.ErrClosed) || !driver.IsUnreachable(err) {
		t.Errorf("enter = %d, %v; want 503, unreachable, and not ErrClosed", status, err)
	}
}

// An invalid claim of a renewal affects no other claim, and reaches no driver.
func TestRenewalsAreChecked(t *testing.T) {
	f := newFake()
	_, url := start(t, f, nil)
	if _, err := asks(t, url+api.Enter, body(t, &api.EnterRequest{Claim: claim("x", 0)})); err != nil {
		t.Fatal(err)
	}
	bad := claim("y", 0)
	bad.TTL = 0
	_, answer, err := post(t.Context(), url+api.Renew, body(t, &api.RenewRequest{Claims: []api.Claim{bad, claim("x", 0)}}))
	var got api.RenewAnswer
	if err != nil || json.Unmarshal(answer, &got) != nil || len(got.Renewals) != 2 {
		t.Fatalf("renew = %s, %v; want two renewals", answer, err)
	}
	if e := got.Renewals[0].Error; e == nil || e.Code != api.CodeInvalid || got.Renewals[1].Error != nil || got.Renewals[1].TTL == 0 {
		t.Errorf("renew = %s; want the first invalid, the second renewed", answer)
	}
	many := &api.RenewRequest{Claims: make([]api.Claim, api.MaxClaims+1)}
	if status, _ := asks(t, url+api.Renew, body(t, many)); status != http.StatusBadRequest {
		t.Errorf("renew of %d claims = %d; want 400", len(many.Claims), status)
	}
}
