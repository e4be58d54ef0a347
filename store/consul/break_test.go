package consul

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// A meddler calls a function right before the first request whose body contains a text.
type meddler struct {
	*http.Transport
	text string
	once sync.Once
	do   func()
}

func (m *meddler) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if strings.Contains(string(body), m.text) {
			m.once.Do(m.do)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return m.Transport.RoundTrip(r)
}

// meddled opens a client that calls a function right before its first deletion.
func meddled(t *testing.T, s *servertest.Server, do func()) *Driver {
	t.Helper()
	way := &meddler{Transport: transport(time.Second, nil), text: `"Verb":"delete"`, do: do}
	d, err := New(timely(t), &Options{Client: &http.Client{Transport: way}, URL: "http://" + s.Addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close(); way.CloseIdleConnections() })
	return d
}

// Break returns the claim's state at its removal: the claim ahead may have left since the queue was read.
func TestBreakTellsHowTheClaimStood(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	other := open(t, "consul://"+s.Addr)
	first, second := claimOn("name"), claimOn("name")
	holds(t, other, first)
	waits(t, other, second)
	d := meddled(t, s, func() { leave(t, other, first) })
	got, err := d.Break(timely(t), &driver.BreakRequest{Name: "name", Ticket: second.Ticket})
	if err != nil || got.Ticket != second.Ticket || !got.Holds {
		t.Errorf("break of a claim that holds by then = %+v, %v; want ticket %d, holding", got, err, second.Ticket)
	}
}

// Somebody overwrites a claim by hand right before Break removes it. Break returns the claim as it was read.
func TestBreakOfAClaimOverwritten(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	by := operator{t, "http://" + s.Addr}
	other := open(t, "consul://"+s.Addr)
	c := claimOn("name")
	holds(t, other, c)
	d := meddled(t, s, func() {
		e := parse("name", "stile/name/", by.under("stile/name/")).find(c.ID)
		if status, text := by.do("PUT", "kv/"+e.Key+"?acquire="+e.Session, "rubbish"); status != http.StatusOK {
			t.Errorf("the claim is not written over: %d, %s", status, text)
		}
	})
	got, err := d.Break(timely(t), &driver.BreakRequest{Name: "name", Ticket: c.Ticket})
	if err != nil || got.Ticket != c.Ticket || !got.Holds {
		t.Errorf("break = %+v, %v; want ticket %d, holding", got, err, c.Ticket)
	}
	if left := by.under("stile/name/"); len(left) > 0 {
		t.Errorf("left is %+v", left)
	}
}
