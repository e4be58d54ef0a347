package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/server"
)

// As sends requests by a principal, or with an empty name by nobody.
type as struct {
	principal string
	by        http.RoundTripper
}

func (a as) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.principal != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+a.principal)
	}
	return a.by.RoundTrip(r)
}

// A limited is a server with limits in a bubble, and its clients.
type limited struct {
	*testing.T
	*fake
	s  *server.Server
	by http.RoundTripper
}

// newLimited starts a server with some options. With principals, only these are answered.
func newLimited(t *testing.T, o server.Options, principals ...string) *limited {
	t.Helper()
	if len(principals) > 0 {
		rights := map[string]server.Right{}
		for _, p := range principals {
			rights[p] = everything
		}
		o.Authenticate = newDoor(rights).authenticate
	}
	f := newFake()
	f.leave = func(l *driver.Release) error {
		<-f.left
		return f.Driver.Leave(context.Background(), l)
	}
	s := newServer(t, f, &o)
	return &limited{t, f, s, servingBy(t, s)}
}

// lock sends a request of the simple API.
func (l *limited) lock(principal, method, path, handle string) said {
	l.Helper()
	a, err := (&user{l.T, &http.Client{Transport: as{principal, l.by}}}).do(l.Context(), method, path, handle)
	if err != nil {
		l.Fatal(err)
	}
	return a
}

// ask sends a request of the contract API, and returns the status and the text of the answer.
func (l *limited) ask(principal, path string, q any) (int, string) {
	l.Helper()
	status, answer, err := postBy(l.Context(), &http.Client{Transport: as{principal, l.by}}, inBubble+path, body(l, q))
	if err != nil {
		l.Fatal(err)
	}
	return status, string(answer)
}

// later begins a request that waits, and returns its answer.
func (l *limited) later(principal, method, path, handle string) <-chan said {
	answer := make(chan said, 1)
	go func() {
		a, err := (&user{l.T, &http.Client{Transport: as{principal, l.by}}}).do(l.Context(), method, path, handle)
		if err != nil {
			a.Code = err.Error()
		}
		answer <- a
	}()
	synctest.Wait()
	return answer
}

// refused checks that an answer refuses a request for a while, and that it did not happen.
func (l *limited) refused(what string, a said, after string) {
	l.Helper()
	if a.status != http.StatusTooManyRequests || a.Code != api.CodeTooMany || a.Outcome != driver.OutcomeUnsent.String() || a.header.Get("Retry-After") != after {
		l.Errorf("%s = %d %s, Retry-After %q; want 429, unsent, and %s s", what, a.status, a.text, a.header.Get("Retry-After"), after)
	}
}

// A principal has three quarters of the rate, and all have the rate. What keeps or ends a claim passes always.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, server.Options{MaxRate: 8}, "ci", "ops")
		mine := l.lock("ci", "PUT", "a", "")
		if mine.status != 200 {
			t.Fatal(mine.text)
		}
		for range 5 {
			if a := l.lock("ci", "GET", "a", ""); a.status != 200 {
				t.Errorf("GET = %d %s", a.status, a.text)
			}
		}
		l.refused("the seventh request of ci", l.lock("ci", "GET", "a", ""), "1")
		for range 2 {
			if a := l.lock("ops", "GET", "a", ""); a.status != 200 {
				t.Errorf("GET by another = %d %s", a.status, a.text)
			}
		}
		l.refused("the ninth request of all", l.lock("ops", "PUT", "b", ""), "1")
		refused := named("c", "id1")
		for path, q := range map[string]any{
			api.Enter: &api.EnterRequest{Claim: refused}, api.List: &api.ListRequest{Name: "a"},
		} {
			if status, text := l.ask("ops", path, q); status != 429 || !strings.Contains(text, api.CodeTooMany) {
				t.Errorf("%s = %d %s; want 429", path, status, text)
			}
		}
		if a := l.lock("ci", "POST", "a", mine.Handle); a.status != 200 {
			t.Errorf("POST = %d %s; want the lease renewed", a.status, a.text)
		}
		gone := named("c", "id2")
		gone.Ticket = 7
		for path, q := range map[string]any{
			api.Renew: &api.RenewRequest{Claims: []api.Claim{gone}}, api.Leave: &api.LeaveRequest{Claim: gone}, api.Enter: &api.EnterRequest{Claim: gone},
			api.Break: &api.BreakRequest{Name: "c"}, api.Traits: &api.Nothing{}, api.Identity: &api.Nothing{},
		} {
			if status, text := l.ask("ci", path, q); status == 429 {
				t.Errorf("%s = %d %s; want no refusal by a limit", path, status, text)
			}
		}
		if a := l.lock("ci", "DELETE", "a", mine.Handle); a.status != 200 {
			t.Errorf("DELETE = %d %s; want the lock released", a.status, a.text)
		}
		time.Sleep(time.Second)
		if a := l.lock("ci", "PUT", "a", ""); a.status != 200 {
			t.Errorf("PUT a second later = %d %s", a.status, a.text)
		}
	})
}

// A principal has three quarters of the waits. One more is refused before it enters. A claim in the queue keeps its place:
// its request is only cut short.
func TestWaitsOfPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, server.Options{MaxWaits: 4}, "ci", "ops")
		holds := map[string]said{}
		for _, name := range []string{"a", "b", "c", "d"} {
			holds[name] = l.lock("ops", "PUT", name, "")
			l.lock("ops", "POST", name, holds[name].Handle)
		}
		queued := l.lock("ci", "PUT", "d?wait=1s", "")
		var waits []<-chan said
		for _, name := range []string{"a", "b", "c"} {
			waits = append(waits, l.later("ci", "PUT", name+"?wait=5s", ""))
		}
		l.refused("a fourth wait", l.lock("ci", "PUT", "d?wait=5s", myID), "2")
		if a := l.lock("ci", "GET", "d", ""); strings.Count(a.text, "holds") != 2 {
			t.Errorf("the queue is %s; want the holder and one waiter", a.text)
		}
		begin := time.Now()
		again := l.lock("ci", "PUT", "d?wait=5s", queued.Handle)
		if again.Code != "held" || again.header.Get("Retry-After") != "1" || again.Handle == "" || time.Since(begin) > 0 {
			t.Errorf("PUT with a handle = %d %s, Retry-After %q, after %v; want held at once, and 1 s", again.status, again.text,
				again.header.Get("Retry-After"), time.Since(begin))
		}
		if a := l.lock("ci", "PUT", "e", ""); a.status != 200 {
			t.Errorf("a try = %d %s", a.status, a.text)
		}
		if status, text := l.ask("ci", api.Enter, &api.EnterRequest{Claim: named("d", "x1")}); status != 429 {
			t.Errorf("enter = %d %s; want 429", status, text)
		}
		try := named("d", "x2")
		try.Try = true
		if status, text := l.ask("ci", api.Enter, &api.EnterRequest{Claim: try}); status != 200 {
			t.Errorf("enter with try = %d %s", status, text)
		}
		await := l.later("ops", "PUT", "a?wait=5s", "")
		l.refused("a fifth wait of all", l.lock("ops", "PUT", "f?wait=5s", ""), "2")
		time.Sleep(5 * time.Second)
		for _, w := range append(waits, await) {
			if a := <-w; a.Code != "held" {
				t.Errorf("a wait ends with %d %s; want held", a.status, a.text)
			}
		}
		if a := l.lock("ci", "PUT", "f?wait=5s", ""); a.status != 200 {
			t.Errorf("PUT after the waits = %d %s", a.status, a.text)
		}
	})
}

// While the store hangs, a principal has only so many requests under way, whatever they ask for. So others get connections.
func TestRequestsOfPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, server.Options{MaxWaits: 4, Consul: true, Keys: replicaKeys}, "ci", "ops")
		holds := l.lock("ci", "PUT", "a", "")
		goOn := make(chan struct{})
		l.fake.renew = func(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
			<-goOn
			return l.Driver.Renew(ctx, cs)
		}
		renewal, ended := &api.RenewRequest{Claims: []api.Claim{named("a", "x")}}, make(chan int, 4)
		for range cap(ended) {
			go func() {
				status, _, err := postBy(t.Context(), &http.Client{Transport: as{"ci", l.by}}, inBubble+api.Renew, body(t, renewal))
				if err != nil {
					t.Error(err)
				}
				ended <- status
			}()
		}
		synctest.Wait()
		if a := l.lock("ci", "POST", "a", holds.Handle); a.status != 503 || a.Code != "unreachable" || a.Outcome != driver.OutcomeUnsent.String() ||
			a.header.Get("Retry-After") != "1" || !strings.Contains(a.text, "ci already has 4 requests under way") {
			t.Errorf("a fifth request = %d %s, Retry-After %q; want 503, unsent, with the bound", a.status, a.text, a.header.Get("Retry-After"))
		}
		if status, text := l.ask("ci", api.Renew, renewal); status != 503 || !strings.Contains(text, "ci already has 4 requests under way") {
			t.Errorf("a renewal = %d %s; want 503, with the bound", status, text)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, inBubble+"/v1/kv/a", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := as{"ci", l.by}.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 500 || res.Header.Get("Retry-After") != "1" {
			t.Errorf("a request of Consul's client = %s; want 500, after which it asks again", res.Status)
		}
		if a := l.lock("ops", "PUT", "b", ""); a.status != 200 {
			t.Errorf("PUT by another = %d %s", a.status, a.text)
		}
		close(goOn)
		for range cap(ended) {
			if status := <-ended; status != 200 {
				t.Errorf("a renewal that was under way = %d; want 200", status)
			}
		}
		if a := l.lock("ci", "POST", "a", holds.Handle); a.status != 200 {
			t.Errorf("POST after these = %d %s", a.status, a.text)
		}
	})
}

// A principal may ask for alerts about a bounded number of claims, which the server remembers meanwhile.
func TestAlertsOfPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, server.Options{MaxClaims: 1}, "ci", "ops")
		ask := func(ctx context.Context, who string, claims ...api.Claim) *http.Response {
			t.Helper()
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, inBubble+api.Alerts, strings.NewReader(body(t, &api.AlertsRequest{Claims: claims})))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", api.JSON)
			res, err := as{who, l.by}.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { res.Body.Close() })
			return res
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if res := ask(ctx, "ci", named("a", "x"), named("b", "x")); res.StatusCode != 200 {
			t.Errorf("alerts about 2 claims = %s", res.Status)
		}
		res := ask(t.Context(), "ci", named("c", "x"))
		if res.StatusCode != 429 {
			t.Fatalf("alerts about a third claim = %s; want 429", res.Status)
		}
		text, err := io.ReadAll(res.Body)
		if err != nil || res.Header.Get("Retry-After") != "2" || !strings.Contains(string(text), "ci already has alerts about 2 claims") {
			t.Errorf("alerts about a third claim = %s, %v; want the bound", text, err)
		}
		if res := ask(t.Context(), "ops", named("c", "x")); res.StatusCode != 200 {
			t.Errorf("alerts for another principal = %s", res.Status)
		}
		cancel()
		synctest.Wait()
		if res := ask(t.Context(), "ci", named("c", "x")); res.StatusCode != 200 {
			t.Errorf("alerts after the client has gone = %s", res.Status)
		}
	})
}

// A principal has only so many claims that hold or wait. One more is refused before it enters, until one leaves or its lease ends.
// What there is already may be repeated, renewed and left.
func TestClaimsOfPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, server.Options{MaxClaims: 2}, "ci", "ops")
		if a := l.lock("ops", "PUT", "x", ""); a.status != 200 {
			t.Fatal(a.text)
		}
		a, x := l.lock("ci", "PUT", "a", myID), l.lock("ci", "PUT", "x?wait=1s", "")
		if a.status != 200 || x.Code != "held" || x.Handle == "" {
			t.Fatalf("the first claims = %s and %s", a.text, x.text)
		}
		l.refused("a third claim", l.lock("ci", "PUT", "b", ""), "2")
		if status, text := l.ask("ci", api.Enter, &api.EnterRequest{Claim: named("b", "x1")}); status != 429 || !strings.Contains(text, `"unsent"`) {
			t.Errorf("enter = %d %s; want 429, unsent", status, text)
		}
		if q := l.lock("ops", "GET", "b", ""); strings.Contains(q.text, "holds") {
			t.Errorf("a refused claim entered: %s", q.text)
		}
		for what, b := range map[string]said{
			"a repeated PUT": l.lock("ci", "PUT", "a", myID), "a renewal": l.lock("ci", "POST", "a?ttl=5s", a.Handle),
			"a claim of another principal": l.lock("ops", "PUT", "b", ""),
		} {
			if b.status != 200 {
				t.Errorf("%s = %d %s", what, b.status, b.text)
			}
		}
		if b := l.lock("ci", "PUT", "x?wait=1s", x.Handle); b.Code != "held" {
			t.Errorf("a wait at the same place = %d %s", b.status, b.text)
		}
		if b := l.lock("ci", "DELETE", "x", x.Handle); b.status != 200 {
			t.Errorf("DELETE = %d %s", b.status, b.text)
		}
		if b := l.lock("ci", "PUT", "b", ""); b.Code != "held" {
			t.Errorf("a try of a held lock = %d %s", b.status, b.text)
		}
		if c := l.lock("ci", "PUT", "c", ""); c.status != 200 {
			t.Errorf("a second claim after one left, and after a try = %d %s", c.status, c.text)
		}
		l.refused("a third claim", l.lock("ci", "PUT", "d", ""), "2")
		time.Sleep(11 * time.Second)
		for _, name := range []string{"d", "e"} {
			if d := l.lock("ci", "PUT", name, ""); d.status != 200 {
				t.Errorf("a claim after the leases of the others = %d %s", d.status, d.text)
			}
		}
		l.refused("a third claim", l.lock("ci", "PUT", "f", ""), "2")
	})
}

// A lock that is kept closed after its release counts until it is open. A claim that entered elsewhere counts once it is renewed here.
func TestClaimsThatLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, server.Options{MaxClaims: 1}, "ci")
		enter := func(name, id string) (int, string) {
			t.Helper()
			return l.ask("ci", api.Enter, &api.EnterRequest{Claim: named(name, id)})
		}
		if status, text := enter("a", "x1"); status != 200 {
			t.Fatal(text)
		}
		holds := named("a", "x1")
		holds.Ticket = 1
		if status, text := l.ask("ci", api.Leave, &api.LeaveRequest{Claim: holds, Keep: time.Minute}); status != 200 {
			t.Fatal(text)
		}
		time.Sleep(59 * time.Second)
		if status, text := enter("b", "x2"); status != 429 {
			t.Errorf("a claim beside a kept one = %d %s", status, text)
		}
		time.Sleep(2 * time.Second)
		if status, text := enter("b", "x2"); status != 200 {
			t.Fatalf("a claim after the kept one = %d %s", status, text)
		}
		door := newDoor(map[string]server.Right{"ci": everything})
		other := newServer(t, l.fake, &server.Options{MaxClaims: 1, Authenticate: door.authenticate})
		l.by = servingBy(t, other)
		renewed := named("b", "x2")
		renewed.Ticket = 2
		if status, text := l.ask("ci", api.Renew, &api.RenewRequest{Claims: []api.Claim{renewed}}); status != 200 || strings.Contains(text, "error") {
			t.Errorf("a renewal elsewhere = %d %s", status, text)
		}
		if status, text := enter("c", "x3"); status != 429 {
			t.Errorf("a claim beside one of another server = %d %s", status, text)
		}
	})
}

// Sessions of Consul's clients, and their keys, are claims of their principal. Above the bound they get 500 and ask again.
func TestClaimsOfConsul(t *testing.T) {
	f := newFake()
	d := newDoor(map[string]server.Right{"ci": everything})
	_, url := start(t, f, &server.Options{Authenticate: d.authenticate, Consul: true, Keys: replicaKeys, MaxClaims: 2})
	_, text := put(t.Context(), t, url+"/v1/session/create", "ci", `{"TTL": "10s"}`)
	_, id, _ := strings.Cut(text, `:"`)
	id, _, _ = strings.Cut(id, `"`)
	for _, tt := range []struct {
		path, says string
		status     int
	}{
		{"/v1/kv/a?acquire=" + id, "true", 200}, {"/v1/kv/b?acquire=" + id, "ci already has 2 claims", 500},
		{"/v1/kv/a?acquire=" + id, "true", 200}, {"/v1/session/renew/" + id, id, 200},
		{"/v1/kv/a?release=" + id, "true", 200}, {"/v1/kv/b?acquire=" + id, "true", 200},
	} {
		if status, text := put(t.Context(), t, url+tt.path, "ci", ""); status != tt.status || !strings.Contains(text, tt.says) {
			t.Errorf("%s = %d %s; want %d %s", tt.path, status, text, tt.status, tt.says)
		}
	}
}

// A name has three quarters of the waits, of a server without principals too.
func TestWaitsOfName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, server.Options{MaxWaits: 4})
		holder := l.lock("", "PUT", "a", "")
		l.lock("", "POST", "a", holder.Handle)
		queued := named("a", "waiter")
		if status, text := l.ask("", api.Enter, &api.EnterRequest{Claim: queued}); status != 200 {
			t.Fatal(text)
		}
		queued.Ticket = 2
		var waits []<-chan said
		for range 3 {
			waits = append(waits, l.later("", "PUT", "a?wait=5s", ""))
		}
		l.refused("a fourth wait for the name", l.lock("", "PUT", "a?wait=5s", ""), "2")
		if status, text := l.ask("", api.Await, &api.AwaitRequest{Claim: queued, Within: time.Second}); status != 429 || !strings.Contains(text, `"unsent"`) {
			t.Errorf("await = %d %s; want 429, unsent", status, text)
		}
		if status, text := l.ask("", api.Enter, &api.EnterRequest{Claim: queued}); status != 200 {
			t.Errorf("enter of a claim in the queue = %d %s", status, text)
		}
		b := l.lock("", "PUT", "b?wait=5s", "")
		if b.status != 200 {
			t.Errorf("PUT of another name = %d %s", b.status, b.text)
		}
		waits = append(waits, l.later("", "PUT", "b?wait=5s", ""))
		for _, path := range []string{api.Watch + "?name=c"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, inBubble+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := l.by.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != 429 || res.Header.Get("Retry-After") != "2" {
				t.Errorf("%s = %s; want 429", path, res.Status)
			}
		}
		for _, w := range waits {
			if a := <-w; a.Code != "held" {
				t.Errorf("a wait ends with %d %s; want held", a.status, a.text)
			}
		}
	})
}

// No lease is longer than the server's longest. A longer one is refused to a new claim, and cut short for an existing claim.
func TestLongestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, server.Options{MaxTTL: time.Minute})
		if a := l.lock("", "PUT", "a?ttl=61s", ""); a.status != 400 || !strings.Contains(a.text, "ttl is from 1s to 1m0s") {
			t.Errorf("PUT = %d %s; want the range", a.status, a.text)
		}
		_, text := l.ask("", api.Traits, &api.Nothing{})
		if !strings.Contains(text, fmt.Sprintf(`"max_ttl_ns":%d,`, time.Minute)) {
			t.Errorf("the traits are %s; want leases of a minute at most", text)
		}
		long, delayed, fits := named("a", "x1"), named("a", "x2"), named("a", "x3")
		long.TTL, delayed.TTL, delayed.Wait, delayed.Delay, fits.TTL, fits.Wait = 61*time.Second, time.Second, time.Second, time.Hour, time.Minute, time.Second
		for _, c := range []api.Claim{long, delayed} {
			if status, text := l.ask("", api.Enter, &api.EnterRequest{Claim: c}); status != 400 || !strings.Contains(text, "at most 1m0s") {
				t.Errorf("enter = %d %s; want a refusal", status, text)
			}
		}
		if status, text := l.ask("", api.Enter, &api.EnterRequest{Claim: fits}); status != 200 {
			t.Fatal(text)
		}
		fits.TTL, fits.Wait, fits.Ticket = time.Hour, time.Hour, 1
		for _, path := range []string{api.Renew, api.Enter} {
			q := map[string]any{api.Renew: &api.RenewRequest{Claims: []api.Claim{fits}}, api.Enter: &api.EnterRequest{Claim: fits}}[path]
			if _, text := l.ask("", path, q); !strings.Contains(text, fmt.Sprintf(`"ttl_ns":%d`, time.Minute)) {
				t.Errorf("%s of an hour = %s; want a minute", path, text)
			}
		}
		if status, text := l.ask("", api.Leave, &api.LeaveRequest{Claim: fits, Keep: 2 * time.Minute}); status != 400 {
			t.Errorf("leave that keeps the lock for 2m = %d %s; want a refusal", status, text)
		}
		b := l.lock("", "PUT", "b", myID)
		old := b.Handle[:strings.LastIndex(b.Handle, ".")] + ".3600000" // of before the server had the limit
		if a := l.lock("", "POST", "b", old); a.status != 200 || a.Valid > 60_000 || a.Valid < 50_000 {
			t.Errorf("POST with a handle of an hour = %d %s; want nearly a minute", a.status, a.text)
		}
	})
}

// A session of Consul's clients has a lease too, and new sessions have a rate.
func TestLimitsOfConsul(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, server.Options{MaxTTL: time.Minute, MaxRate: 2, Consul: true, Keys: replicaKeys})
		for _, tt := range []struct {
			ttl    string
			status int
		}{{"61s", 400}, {"60s", 200}, {"15s", 429}} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, inBubble+"/v1/session/create", strings.NewReader(`{"TTL":"`+tt.ttl+`"}`))
			if err != nil {
				t.Fatal(err)
			}
			res, err := l.by.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != tt.status || (res.Header.Get("Retry-After") == "1") != (tt.status == 429) {
				t.Errorf("a session of %s = %d %s; want %d", tt.ttl, res.StatusCode, text, tt.status)
			}
		}
		all, err := l.Driver.List(t.Context(), &driver.Query{})
		if err != nil || len(all) != 1 || all[0].Claims[0].Remaining > time.Minute {
			t.Errorf("the store has %+v, %v; want one session for a minute", all, err)
		}
	})
}

// slow is a store that lists only when it may.
type slow struct {
	*fake
	begun, may chan struct{}
}

func (s slow) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	s.begun <- struct{}{}
	<-s.may
	return s.Driver.List(ctx, q)
}

// A few lists of many names are made at a time. A principal has three quarters of them.
func TestListsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := slow{newFake(), make(chan struct{}), make(chan struct{})}
		s := newServer(t, d, &server.Options{Authenticate: newDoor(map[string]server.Right{"ci": everything, "ops": everything}).authenticate})
		l := &limited{t, d.fake, s, servingBy(t, s)}
		statuses := make(chan int, 100)
		begin := func(who string, n int) {
			for range n {
				go func() {
					status, _ := l.ask(who, api.List, &api.ListRequest{})
					statuses <- status
				}()
				<-d.begun
			}
		}
		begin("ci", server.MaxLists*3/4)
		if status, text := l.ask("ci", api.List, &api.ListRequest{}); status != 429 {
			t.Errorf("a list = %d %s; want 429", status, text)
		}
		begin("ops", server.MaxLists/4)
		if status, text := l.ask("ops", api.List, &api.ListRequest{}); status != 429 {
			t.Errorf("a list by another = %d %s; want 429", status, text)
		}
		close(d.may)
		for range server.MaxLists {
			if status := <-statuses; status != 200 {
				t.Errorf("a list = %d; want 200", status)
			}
		}
		begin("ci", 1)
		if status := <-statuses; status != 200 {
			t.Errorf("a list after these = %d; want 200", status)
		}
	})
}

// Few queues are read at a time, however many ask for one. A principal has three quarters of them, and a GET waits for its turn.
func TestLooksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := slow{newFake(), make(chan struct{}), make(chan struct{})}
		s := newServer(t, d, &server.Options{Authenticate: newDoor(map[string]server.Right{"ci": everything, "ops": everything}).authenticate})
		l := &limited{t, d.fake, s, servingBy(t, s)}
		const most, share = server.MaxLooks, server.MaxLooks * 3 / 4
		var all []<-chan said
		begin := func(who string, n int) {
			for range n {
				all = append(all, l.later(who, "GET", "a", ""))
			}
		}
		begin("ci", most)
		for range share {
			<-d.begun
		}
		begin("ops", 1)
		<-d.begun // beside those of ci
		synctest.Wait()
		select {
		case <-d.begun:
			t.Errorf("more than %d queues are read at a time for a principal", share)
		default:
		}
		go func() {
			for range most - share {
				<-d.begun
			}
		}()
		close(d.may)
		for _, answer := range all {
			if a := <-answer; a.status != 200 {
				t.Errorf("GET = %d %s; want 200", a.status, a.text)
			}
		}
	})
}

// A client that reads a list slowly has it until a time is over, and no longer.
func TestUnreadList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, server.Options{})
		for i := range 100 {
			c := named(fmt.Sprint("many", i), "x")
			c.Record = make([]byte, driver.MaxRecord)
			if status, text := l.ask("", api.Enter, &api.EnterRequest{Claim: c}); status != 200 {
				t.Fatal(text)
			}
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, inBubble+api.List, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", api.JSON)
		res, err := l.by.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		begin := time.Now()
		for part := make([]byte, driver.MaxRecord); ; time.Sleep(10 * time.Second) { // a part of it is more than one read
			if _, err = res.Body.Read(part); err != nil {
				break
			}
		}
		if took := time.Since(begin); errors.Is(err, io.EOF) || took < 2*time.Minute || took > 3*time.Minute {
			t.Errorf("the list ends by %v after %v; want it cut off after 2m", err, took)
		}
	})
}

// A server forgets principals that ask no more.
func TestPrincipalsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		l := newLimited(t, server.Options{Authenticate: func(*http.Request) (*server.Principal, error) {
			n++
			return &server.Principal{Name: fmt.Sprint("p", n), Rights: []server.Right{everything}}, nil
		}})
		for range 1000 {
			l.lock("", "GET", "a", "")
			time.Sleep(100 * time.Millisecond)
		}
		if known := server.Principals(l.s); known > 200 {
			t.Errorf("after a request of each of 1000 principals, %d are known", known)
		}
	})
}

func TestLimitsOfOptions(t *testing.T) {
	for _, o := range []server.Options{
		{MaxTTL: time.Second}, {MaxTTL: 25 * time.Hour}, {MaxTTL: -1}, {MaxWaits: 1}, {MaxWaits: -1}, {MaxRate: 1}, {MaxRate: -1},
		{MaxClaims: 1}, {MaxClaims: -1, Authenticate: newDoor(nil).authenticate},
	} {
		if _, err := server.New(newFake(), &o); err == nil || !slices.ContainsFunc([]string{"from 10s to 24h", "at least 2", "at least 1", "without an Authenticator"}, func(says string) bool {
			return strings.Contains(err.Error(), says)
		}) {
			t.Errorf("New with %+v = %v; want an error with the range", o, err)
		}
	}
}
