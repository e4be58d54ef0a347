package server_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/server"
)

// alerts are the events that a client gets about some claims.
type alerts struct {
	t      *testing.T
	events chan string
}

// listen asks for alerts of claims, in a bubble.
func listen(t *testing.T, by *http.Client, claims ...api.Claim) *alerts {
	t.Helper()
	text := body(t, &api.AlertsRequest{Claims: claims})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, inBubble+api.Alerts, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", api.JSON)
	res, err := by.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	a, begin := &alerts{t, make(chan string, 100)}, time.Now()
	go func() {
		defer close(a.events)
		last := ""
		for lines := bufio.NewScanner(res.Body); lines.Scan(); last = lines.Text() {
			if data, ok := strings.CutPrefix(lines.Text(), api.EventData); ok {
				a.events <- fmt.Sprint(last, " ", data, " after ", time.Since(begin))
			}
		}
	}()
	return a
}

// next fails unless the next event, beside signs of life, comes at a time after the first event.
func (a *alerts) next(event, data string, after time.Duration) {
	a.t.Helper()
	if got, want := <-a.events, fmt.Sprint(event, " ", data, " after ", after); got != want {
		a.t.Fatalf("%s; want %s", got, want)
	}
}

// stored returns the store's form of a claim.
func stored(c *api.Claim) *driver.Claim {
	d := c.Driver()
	d.ID = server.StoredID(d.Name, d.ID)
	return d
}

// entered enters claims in a store.
func entered(t *testing.T, f *fake, claims ...api.Claim) {
	t.Helper()
	for i := range claims {
		p, err := f.Driver.Enter(t.Context(), stored(&claims[i]))
		if err != nil || !p.Holds {
			t.Fatalf("enter = %+v, %v", p, err)
		}
		claims[i].Ticket = p.Ticket
	}
}

// named is a claim on another name.
func named(name, id string) api.Claim {
	c := claim(id, 0)
	c.Name, c.Wait = name, time.Minute
	return c
}

// Trap: the id of a claim is the right to release it. A listener gets only the indexes of claims, and only of its own.
func TestAlerts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		by := connected(t, f)
		claims := []api.Claim{named("a", "x"), named("b", "y"), named("c", "z")}
		entered(t, f, claims...)
		other := claim("other", 7)
		one, two := listen(t, by, claims[0], claims[1]), listen(t, by, claims[2], other)
		one.next(api.EventAlert, "{}", 0)
		two.next(api.EventAlert, `{"danger":[1]}`, 0) // an earlier loss is reported too
		if _, err := f.Break(t.Context(), &driver.BreakRequest{Name: "b"}); err != nil {
			t.Fatal(err)
		}
		one.next(api.EventAlert, `{"danger":[1]}`, 0)
		if _, err := f.Break(t.Context(), &driver.BreakRequest{Name: "c"}); err != nil {
			t.Fatal(err)
		}
		two.next(api.EventAlert, `{"danger":[0]}`, 0)
	})
}

// Trap: a driver forgets a claim that another replica renews, and hears no more of it. The server asks the client in time to
// come again. The server itself renews nothing after the first time: otherwise a client that stands still would hold for
// ever.
func TestAlertsEndWithTheDriversMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		by := connected(t, f)
		claims := []api.Claim{named("a", "here"), named("b", "elsewhere"), named("c", "left")}
		entered(t, f, claims...)
		time.Sleep(50 * time.Minute)
		on := listen(t, by, claims...)
		on.next(api.EventAlert, "{}", 0)
		time.Sleep(20 * time.Minute)
		if _, answer, err := postBy(t.Context(), by, inBubble+api.Renew, body(t, &api.RenewRequest{Claims: claims[:1]})); err != nil {
			t.Fatal(answer, err)
		}
		if r := f.Renew(t.Context(), []*driver.Claim{stored(&claims[1])}); r[0].Err != nil {
			t.Fatal(r[0].Err)
		}
		if _, answer, err := postBy(t.Context(), by, inBubble+api.Leave, body(t, &api.LeaveRequest{Claim: claims[2]})); err != nil {
			t.Fatal(answer, err)
		}
		on.next(api.EventAlert, `{"again":[1]}`, 30*time.Minute)
		on.next(api.EventAlert, `{"again":[0]}`, 50*time.Minute)
		time.Sleep(31 * time.Minute)
		for i, r := range f.Renew(t.Context(), []*driver.Claim{stored(&claims[0]), stored(&claims[1])}) {
			if !errors.Is(r.Err, driver.ErrGone) {
				t.Errorf("a claim %s that its client did not renew for an hour = %+v; want ErrGone", claims[i].ID, r)
			}
		}
	})
}

// A listener of a server that ends is sent to another server.
func TestAlertsOfAServerThatEnds(t *testing.T) {
	f := newFake()
	s, url := start(t, f, nil)
	c := claim("x", 0)
	entered(t, f, c)
	status := make(chan string, 1)
	begun := make(chan struct{})
	go func() {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+api.Alerts, strings.NewReader(body(t, &api.AlertsRequest{Claims: []api.Claim{c}})))
		if err != nil {
			status <- err.Error()
			return
		}
		r.Header.Set("Content-Type", api.JSON)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			status <- err.Error()
			return
		}
		defer res.Body.Close()
		close(begun)
		last := ""
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if text, ok := strings.CutPrefix(lines.Text(), api.EventData); ok {
				last = text
			}
		}
		status <- last
	}()
	<-begun
	s.EndWaits()
	if e, ok := api.ReadError([]byte(<-status)); !ok || !driver.IsUnreachable(e.Err()) {
		t.Errorf("alerts end with %+v; want unreachable", e)
	}
	if _, err := asks(t, url+api.Alerts, body(t, &api.AlertsRequest{Claims: []api.Claim{c}})); !driver.IsUnreachable(err) {
		t.Errorf("alerts of a server that ends = %v; want unreachable", err)
	}
}

// deaf is a store without alerts.
type deaf struct{ driver.Driver }

func TestAlertsAreChecked(t *testing.T) {
	_, url := start(t, newFake(), nil)
	bad, amended := claim("x", 0), claim("x", 0)
	bad.TTL, amended.Amend = 0, &api.Amendment{Weight: 1}
	for name, claims := range map[string][]api.Claim{
		"none": nil, "too many": make([]api.Claim, api.MaxClaims+1), "invalid": {bad}, "with an amendment": {amended},
	} {
		if status, err := asks(t, url+api.Alerts, body(t, &api.AlertsRequest{Claims: claims})); status != 400 || driver.OutcomeOf(err) != driver.OutcomeRefused {
			t.Errorf("alerts of claims, %s = %d, %v; want 400, and a refusal", name, status, err)
		}
	}
	_, url = start(t, &deaf{newFake()}, nil)
	if _, err := asks(t, url+api.Alerts, body(t, &api.AlertsRequest{Claims: []api.Claim{claim("x", 0)}})); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("alerts of a store that learns of nothing = %v; want ErrUnsupported", err)
	}
	_, answer, err := post(t.Context(), url+api.Traits, "{}")
	var got api.TraitsAnswer
	if err != nil || json.Unmarshal(answer, &got) != nil || got.Alerts {
		t.Errorf("the traits of such a store are %s, %v; want no alerts", answer, err)
	}
}
