package consul

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// A delayer holds back one request: its client gets an error, and the request arrives when the test says so.
type delayer struct {
	*http.Transport
	mu   sync.Mutex
	text string // the text in the body of the request to hold back; "" means none
	held func() (*http.Response, error)
}

func (l *delayer) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text == "" || !strings.Contains(string(body), l.text) {
		return l.Transport.RoundTrip(r)
	}
	l.text = ""
	later := r.Clone(context.WithoutCancel(r.Context()))
	later.Body = io.NopCloser(bytes.NewReader(body))
	l.held = func() (*http.Response, error) { return l.Transport.RoundTrip(later) }
	return nil, errors.New("the connection broke")
}

// arrive lets the held request arrive.
func (l *delayer) arrive(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		t.Fatal("no request was held back")
	}
	answer, err := l.held()
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
}

// delayed opens a client whose requests can be held back.
func delayed(t *testing.T, s *servertest.Server) (*Driver, *delayer) {
	t.Helper()
	way := &delayer{Transport: transport(time.Second, nil)}
	d, err := New(timely(t), &Options{Client: &http.Client{Transport: way}, URL: "http://" + s.Addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close(); way.CloseIdleConnections() })
	return d, way
}

// A claim that took the lock's key too early gives it back. If that request arrives when the claim holds, it does nothing:
// otherwise a client of Consul's own could take the lock as well.
func TestLateReturnOfTheLockKey(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	by := operator{t, "http://" + s.Addr}
	late, way := delayed(t, s)
	d := open(t, "consul://"+s.Addr)
	first, second, third := claimOn("name"), claimOn("name"), claimOn("name")
	holds(t, d, first)
	waits(t, d, second)
	leave(t, d, first) // the second has not noticed, so the key is free
	way.text = `"Verb":"delete"`
	if _, err := late.Enter(timely(t), third); err == nil || driver.NotApplied(err) {
		t.Fatalf("enter = %v; want an unknown outcome, since the answer to the return of the key is lost", err)
	}
	leave(t, d, second)
	holds(t, late, third)
	way.arrive(t)
	if q := parse("name", "stile/name/", by.under("stile/name/")); !q.hasLockKey(q.find(third.ID).Session) {
		t.Errorf("the lock's key is %+v; want it with the session of the holder", q.lockKey)
	}
	if err := renew(t, late, third); err != nil {
		t.Errorf("renewal = %v; want nil", err)
	}
	leave(t, late, third)
}

// A loser loses all requests whose body contains a text.
type loser struct {
	*http.Transport
	text string
}

func (l *loser) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if strings.Contains(string(body), l.text) {
			return nil, errors.New("the connection broke")
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return l.Transport.RoundTrip(r)
}

// With a lock-delay, a claim's key outlives its session. If the claim enters again, it stands behind the present holder,
// even if nobody has removed the key: it does not get its former place.
func TestDeadKeyIsNoPlace(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	by := operator{t, "http://" + s.Addr}
	late, way := delayed(t, s)
	d, err := New(timely(t), &Options{
		Client: &http.Client{Transport: &loser{transport(time.Second, nil), `"Verb":"delete"`}}, URL: "http://" + s.Addr,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	first, second := claimOn("name"), claimOn("name")
	first.Delay, second.Delay = 100*time.Millisecond, 100*time.Millisecond
	way.text = `"Verb":"lock"`
	if _, err := late.Enter(timely(t), first); err == nil || driver.NotApplied(err) {
		t.Fatalf("enter = %v; want an unknown outcome", err)
	}
	way.arrive(t)
	q := parse("name", "stile/name/", by.under("stile/name/"))
	by.must(http.MethodPut, "session/destroy/"+q.find(first.ID).Session, "")
	var holder driver.Place
	servertest.Until(t, "the second holds", func() bool {
		holder, err = d.Enter(timely(t), second)
		return err == nil && holder.Holds
	})
	p, err := late.Enter(timely(t), first)
	if err != nil || p.Holds || p.Ticket <= holder.Ticket {
		t.Errorf("the first enters anew as %+v, %v; want it behind the second, whose ticket is %d", p, err, holder.Ticket)
	}
	if err := renew(t, d, second); err != nil {
		t.Errorf("renewal of the second = %v; want nil", err)
	}
}
