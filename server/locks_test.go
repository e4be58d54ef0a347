package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/store/memory"
)

// A said is any answer of the simple API.
type said struct {
	status                       int
	header                       http.Header
	text                         string
	Handle, Token, Code, Outcome string
	Message                      string
	Unreachable, Released        bool
	Valid                        int64 `json:"valid_ms"`
	Holder                       *member
	Name                         string
	Of                           int64
	Claims                       []member
}

type member struct {
	Token, Owner, Program, Host, Reason string
	Principal                           string
	Holds, Shared                       bool
	Permits                             int64
	Since                               int64 `json:"since_ms"`
	Remaining                           int64 `json:"remaining_ms"`
}

// A user sends requests of the simple API in a bubble.
type user struct {
	t  *testing.T
	by *http.Client
}

func newUser(t *testing.T, d driver.Driver) *user { return &user{t, connected(t, d)} }

func (u *user) do(ctx context.Context, method, path, handle string) (said, error) {
	r, err := http.NewRequestWithContext(ctx, method, inBubble+"/v1/locks/"+path, nil)
	if err != nil {
		return said{}, err
	}
	if handle != "" {
		r.Header.Set("Stile-Handle", handle)
	}
	return u.send(r)
}

func (u *user) send(r *http.Request) (said, error) {
	r.Header.Set("User-Agent", "curl/8.7.1")
	res, err := u.by.Do(r)
	if err != nil {
		return said{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	a := said{status: res.StatusCode, header: res.Header, text: string(text)}
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	return a, err
}

// gets is do; it fails unless the answer has a status, and an error's code or "".
func (u *user) gets(status int, code, method, path, handle string) said {
	u.t.Helper()
	a, err := u.do(u.t.Context(), method, path, handle)
	if err != nil || a.status != status || a.Code != code {
		u.t.Fatalf("%s %s = %d %s, %v; want %d %s", method, path, a.status, a.text, err, status, code)
	}
	return a
}

// begins sends a request in the background, and returns the channel of its answer.
func (u *user) begins(ctx context.Context, method, path, handle string) chan said {
	c := make(chan said, 1)
	go func() {
		a, err := u.do(ctx, method, path, handle)
		if err != nil {
			a.Code = err.Error()
		}
		c <- a
	}()
	synctest.Wait()
	return c
}

// queue returns the store's claims of a name.
func queue(t *testing.T, d driver.Lister, name string) []driver.ClaimInfo {
	t.Helper()
	all, err := d.List(t.Context(), &driver.Query{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		return nil
	}
	return all[0].Claims
}

// token returns the token of a claim in the queue, as a Go client computes it from the ticket.
func token(t *testing.T, d driver.Lister, name string, i int) string {
	t.Helper()
	return strconv.FormatInt(queue(t, d, name)[i].Ticket*1024, 10)
}

// rewriting sends the requests of a bubble to a server's URL.
func rewriting(url string) *http.Client {
	return &http.Client{Transport: toURL(strings.TrimPrefix(url, "http://"))}
}

type toURL string

func (host toURL) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Host = string(host)
	return http.DefaultTransport.RoundTrip(r)
}

const myID = "0123456789abcdefghijkl"

// grace is the time for which a PUT that has waited may continue at its place.
const grace = 3 * time.Second

// A lock is taken, shown, renewed and released. The first grant is valid for 10 s at most.
func TestLockIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		u := newUser(t, f)
		a := u.gets(200, "", "PUT", "orders/42?ttl=1m&owner=nightly&reason=figures", "")
		if want := token(t, f, "orders/42", 0); a.Token != want || a.Valid != 9899 {
			t.Errorf("put = %s; want token %s and 9,899 ms", a.text, want)
		}
		time.Sleep(time.Second)
		look := u.gets(200, "", "GET", "orders/42", "")
		if want := (member{a.Token, "nightly", "curl", look.Claims[0].Host, "figures", "", true, false, 0, 1000, 9000}); len(look.Claims) != 1 || look.Claims[0] != want {
			t.Errorf("get = %s; want %+v", look.text, want)
		}
		if b := u.gets(409, "held", "PUT", "orders/42", ""); b.Holder == nil || b.Holder.Owner != "nightly" || b.Handle != "" || !strings.Contains(b.Message, "this PUT has not waited") {
			t.Errorf("a second put = %s; want the holder, no handle, and that it has not waited", b.text)
		}
		b := u.gets(200, "", "POST", "orders/42", a.Handle)
		if b.Token != a.Token || b.Valid != 59399 || b.Handle != a.Handle {
			t.Errorf("post = %s; want the same token and handle, and 59,399 ms", b.text)
		}
		if b := u.gets(200, "", "POST", "orders/42?ttl=2m", a.Handle); b.Valid != 118799 {
			t.Errorf("post with another ttl = %s; want 118,799 ms", b.text)
		}
		if b := u.gets(200, "", "DELETE", "orders/42", a.Handle); !b.Released {
			t.Errorf("delete = %s; want released", b.text)
		}
		u.gets(410, "gone", "DELETE", "orders/42", a.Handle)
		u.gets(410, "gone", "POST", "orders/42", a.Handle)
		if look := u.gets(200, "", "GET", "orders/42", ""); look.Name != "orders/42" || !strings.Contains(look.text, `"claims":[]`) {
			t.Errorf("get of a free lock = %s; want its name and no claims", look.text)
		}
		if c := u.gets(200, "", "PUT", "orders/42", ""); c.Token <= a.Token {
			t.Errorf("the next put = %s; want a higher token than %s", c.text, a.Token)
		}
	})
}

// valid_ms includes the server's wait: a client always counts from before its request.
func TestValidCountsFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUser(t, newFake())
		a := u.gets(200, "", "PUT", "a", "")
		b := u.begins(t.Context(), "PUT", "a?wait=1m&ttl=5s", "")
		time.Sleep(2 * time.Second)
		u.gets(200, "", "DELETE", "a", a.Handle)
		if got := <-b; got.status != 200 || got.Valid != 9899 {
			t.Errorf("put = %s; want 9,899 ms: 2 s, 5 s and the grace, less the drift", got.text)
		}
	})
}

// The shortest lease is not over after the longest wait, and its place is not lost.
func TestShortLeaseAfterALongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUser(t, newFake())
		a := u.gets(200, "", "PUT", "a", "")
		u.gets(200, "", "POST", "a?ttl=1h", a.Handle)
		b := u.gets(409, "held", "PUT", "a?wait=5m&ttl=1s", "")
		time.Sleep(grace - time.Millisecond)
		c := u.begins(t.Context(), "PUT", "a?wait=5m", b.Handle)
		time.Sleep(5*time.Minute - time.Millisecond)
		begin := time.Now().Add(time.Millisecond - 5*time.Minute)
		u.gets(200, "", "DELETE", "a", a.Handle)
		if got := <-c; got.status != 200 || time.Duration(got.Valid)*time.Millisecond < time.Since(begin)+900*time.Millisecond {
			t.Errorf("%v after its put: %s; want a lease that goes on for about a second", time.Since(begin), got.text)
		}
	})
}

// Trap: a client that freezes or vanishes while it waits, or when it gets the lock, keeps others out for 10 s at most,
// whatever its ttl. If its connection ends, it stays in the queue no longer, and nobody sends Leave for it: it may have asked
// another replica.
func TestClientIsGone(t *testing.T) {
	for _, gone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			u := newUser(t, f)
			a := u.gets(200, "", "PUT", "a", "")
			u.gets(200, "", "POST", "a?ttl=25s", a.Handle)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			u.begins(ctx, "PUT", "a?wait=5m&ttl=1h", "") // the client sends nothing more
			next := u.begins(t.Context(), "PUT", "a?wait=5m", "")
			if time.Sleep(20 * time.Second); gone {
				cancel()
			}
			begin := time.Now()
			got := <-next
			took := time.Since(begin)
			if least := 5 * time.Second; got.status != 200 || took < least || took > least+10*time.Second+time.Millisecond {
				t.Errorf("gone %v: the next client got %s after %v; want the lock at most 10 s after the holder's lease", gone, got.text, took)
			}
			if n := len(f.left); n > 0 {
				t.Errorf("gone %v: %d claims have left; want none", gone, n)
			}
		})
	}
}

// A wait that ends keeps its place for a moment: the next PUT waits on there. Later the place is lost, and nothing enters
// the claim again.
func TestWaitGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		u := newUser(t, f)
		a := u.gets(200, "", "PUT", "a", "")
		u.gets(200, "", "POST", "a?ttl=1h", a.Handle)
		begin := time.Now()
		b := u.gets(409, "held", "PUT", "a?wait=30s&owner=b", "")
		if took := time.Since(begin); took != 30*time.Second || b.Handle == "" {
			t.Errorf("the wait ends after %v with %s; want 30 s and a handle", took, b.text)
		}
		if c := u.gets(409, "held", "PUT", "a", ""); c.Handle != "" {
			t.Errorf("a put that does not wait = %s; want no handle", c.text)
		}
		time.Sleep(2 * time.Second)
		c := u.begins(t.Context(), "PUT", "a?wait=1m", b.Handle)
		u.gets(409, "held", "POST", "a", b.Handle)
		if got := <-c; got.Code != "superseded" {
			t.Errorf("the put that waited = %s; want superseded", got.text)
		}
		c = u.begins(t.Context(), "PUT", "a?wait=1m", b.Handle)
		u.gets(200, "", "DELETE", "a", a.Handle)
		if got := <-c; got.status != 200 || got.Token != token(t, f, "a", 0) || got.Handle != b.Handle {
			t.Errorf("the put that waits on = %s; want the lock, with the same handle", got.text)
		}
		d := u.gets(409, "held", "PUT", "a?wait=1s", myID)
		time.Sleep(4 * time.Second)
		if n := len(queue(t, f, "a")); n != 1 {
			t.Errorf("%d claims 4 s after the wait; want only the holder", n)
		}
		u.gets(410, "place_lost", "PUT", "a?wait=1s", d.Handle)
		if n := len(queue(t, f, "a")); n != 1 {
			t.Errorf("%d claims after a put without a place; want only the holder", n)
		}
	})
}

// A waiting claim can be given up by its own id, even before any answer.
func TestWaitIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		u := newUser(t, f)
		u.gets(200, "", "PUT", "a", "")
		c := u.begins(t.Context(), "PUT", "a?wait=1m", myID)
		u.gets(200, "", "DELETE", "a", myID)
		if got := <-c; got.Code != "superseded" || got.Outcome != "unknown" {
			t.Errorf("the put = %s; want superseded", got.text)
		}
		if n := len(queue(t, f, "a")); n != 1 {
			t.Errorf("%d claims; want only the holder", n)
		}
	})
}

// Trap: a client or a proxy repeats a PUT, at this replica or at another. There is still one claim and one token.
func TestPutIsRepeated(t *testing.T) {
	for _, replicas := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewStore()
			u := newUser(t, store.Driver())
			other := u
			if replicas == 2 {
				other = newUser(t, store.Driver())
			}
			look := store.Driver()
			defer look.Close()
			a := u.gets(200, "", "PUT", "a", myID)
			if b := other.gets(200, "", "PUT", "a", myID); b.Handle != a.Handle || b.Token != a.Token {
				t.Errorf("the same put again = %s; want %s", b.text, a.text)
			}
			id := strings.ToUpper(myID)
			first := u.begins(t.Context(), "PUT", "a?wait=1m", id)
			time.Sleep(5 * time.Second)
			second := other.begins(t.Context(), "PUT", "a?wait=1m", id)
			time.Sleep(time.Second)
			if n := len(queue(t, look, "a")); n != 2 {
				t.Errorf("%d claims; want the holder and one that waits", n)
			}
			want := token(t, look, "a", 1)
			u.gets(200, "", "DELETE", "a", a.Handle)
			b, c := <-first, <-second
			if c.Token != want || replicas == 1 && b.Code != "superseded" || replicas == 2 && b.Token != want {
				t.Errorf("%d replicas answer %s and %s; want one claim with token %s", replicas, b.text, c.text, want)
			}
		})
	}
}

// Trap: a PUT that arrives after its DELETE enters a claim without an owner. It ends after 10 s, and the earlier handle does
// not renew it.
func TestPutArrivesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		u := newUser(t, f)
		a := u.gets(200, "", "PUT", "a?ttl=1h", myID)
		u.gets(200, "", "DELETE", "a", a.Handle)
		u.gets(200, "", "PUT", "a?ttl=1h", myID)
		u.gets(410, "gone", "POST", "a?ttl=24h", a.Handle)
		u.gets(410, "place_lost", "PUT", "a?ttl=1h", a.Handle)
		time.Sleep(10 * time.Second)
		if c := queue(t, f, "a"); len(c) != 0 {
			t.Errorf("after 10 s there is %+v; want nothing", c)
		}
	})
}

// When a server ends, a wait ends with a hint to ask another server. There it continues at the same place.
func TestWaitGoesOnElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		s, transport := serving(t, store.Driver())
		u, other := &user{t, &http.Client{Transport: transport}}, newUser(t, store.Driver())
		a := u.gets(200, "", "PUT", "a", "")
		b := u.begins(t.Context(), "PUT", "a?wait=1m", "")
		look := store.Driver()
		defer look.Close()
		want := token(t, look, "a", 1)
		s.EndWaits()
		got := <-b
		if got.status != 503 || got.Code != "unreachable" || !got.Unreachable || got.Outcome != "unsent" || got.Handle == "" {
			t.Errorf("the put = %d %s; want 503, unreachable, unsent, and a handle", got.status, got.text)
		}
		if late := u.gets(503, "unreachable", "PUT", "a?wait=1m", ""); late.Handle == "" {
			t.Errorf("a put that comes late = %s; want a handle", late.text)
		}
		c := other.begins(t.Context(), "PUT", "a?wait=1m", got.Handle)
		u.gets(200, "", "DELETE", "a", a.Handle)
		if got := <-c; got.Token != want {
			t.Errorf("the other server's answer = %s; want token %s", got.text, want)
		}
	})
}

// Trap: a store notifies the client by which a claim entered. A wait that continues at another replica hears of its turn
// there, since all replicas are one client.
func TestReplicasAreOneClient(t *testing.T) {
	clients := map[string]bool{}
	for range 2 {
		f := newFake()
		f.enter = func(ctx context.Context, c *driver.Claim) (driver.Place, error) {
			clients[c.Client] = true
			return f.Driver.Enter(ctx, c)
		}
		_, url := start(t, f, nil)
		u := &user{t, rewriting(url)}
		u.gets(200, "", "PUT", "a", "")
	}
	if len(clients) != 1 || clients[""] {
		t.Errorf("the replicas' clients are %v; want one", clients)
	}
}

// A store that reports an exhausted waiting lease is not asked without pauses.
func TestNoLeaseLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		asked := 0
		f.enter = func(context.Context, *driver.Claim) (driver.Place, error) {
			if asked++; asked > 10_000 {
				return driver.Place{}, io.ErrUnexpectedEOF
			}
			return driver.Place{Ticket: 7, Retry: 1}, nil
		}
		f.await = func(ctx context.Context, _ *driver.Claim) (driver.Place, error) {
			<-ctx.Done()
			return driver.Place{}, ctx.Err()
		}
		newUser(t, f).gets(409, "held", "PUT", "a?wait=1s", "")
		if asked > 12 {
			t.Errorf("the store was asked %d times in a second; want every 100 ms at most", asked)
		}
	})
}

// A store whose Await always returns early is not asked without a pause either.
func TestEarlyAwaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		u := newUser(t, f)
		u.gets(200, "", "PUT", "a", "")
		asked := 0
		f.await = func(_ context.Context, c *driver.Claim) (driver.Place, error) {
			if asked++; asked > 10_000 {
				return driver.Place{}, io.ErrUnexpectedEOF
			}
			return driver.Place{Ticket: c.Ticket}, nil
		}
		u.gets(409, "held", "PUT", "a?wait=1s", "")
		if asked > 15 {
			t.Errorf("the store was asked %d times in a second; want about every 100 ms", asked)
		}
	})
}

// Another process needs only the handle, at any replica. The store's errors show the outcome of a request.
func TestStoreFails(t *testing.T) {
	f := newFake()
	_, url := start(t, f, nil)
	f.enter = func(context.Context, *driver.Claim) (driver.Place, error) { return driver.Place{}, io.ErrUnexpectedEOF }
	u := &user{t, rewriting(url)}
	if a := u.gets(500, "failed", "PUT", "a", myID); a.Outcome != "unknown" || a.Handle != myID {
		t.Errorf("put = %s; want an unknown outcome, and the id for the next put", a.text)
	}
	f.enter = nil
	f.Close()
	if a := u.gets(503, "unreachable", "PUT", "a", myID); !a.Unreachable {
		t.Errorf("put = %s; want unreachable", a.text)
	}
	u.gets(503, "unreachable", "DELETE", "a", myID)
	u.gets(503, "unreachable", "GET", "a", "")
}

// Readers share, and permits are counted.
func TestSharesAndPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUser(t, newFake())
		u.gets(200, "", "PUT", "a?shared=true", "")
		u.gets(200, "", "PUT", "a?shared=true", "")
		u.gets(409, "held", "PUT", "a?shared=false", "")
		if a := u.gets(200, "", "GET", "a", ""); len(a.Claims) != 2 || !a.Claims[0].Shared || !a.Claims[1].Holds || a.Of != 0 {
			t.Errorf("get = %s; want two readers", a.text)
		}
		p := u.gets(200, "", "PUT", "p?of=3&permits=2", "")
		u.gets(409, "held", "PUT", "p?of=3&permits=2", "")
		u.gets(200, "", "PUT", "p?of=3", "")
		if a := u.gets(200, "", "GET", "p", ""); len(a.Claims) != 2 || a.Claims[0].Permits != 2 || a.Claims[1].Permits != 1 || a.Of != 3 {
			t.Errorf("get = %s; want 2 and 1 permits of 3", a.text)
		}
		if a := u.gets(409, "capacity", "PUT", "p?of=4", ""); !strings.Contains(a.text, `"have":3,"want":4`) ||
			a.Message != "the name is in use with other permits: exists with 3, asked for 4" {
			t.Errorf("put with another number of permits = %s; want what the numbers are of, and both", a.text)
		}
		u.gets(200, "", "POST", "p", p.Handle)
	})
}

// The owner is for people: a job of the same name that reclaims its earlier run's locks does not get this one.
func TestOwnerIsNotReclaimed(t *testing.T) {
	f := newFake()
	_, url := start(t, f, nil)
	u := &user{t, rewriting(url)}
	u.gets(200, "", "PUT", "a?owner=nightly", "")
	job := new(claim("job", 0)).Driver()
	job.Client, job.Owner, job.Reclaim, job.Try = "job", "nightly", true, true
	if p, err := f.Driver.Enter(t.Context(), job); err != nil || p.Holds {
		t.Errorf("a job with the same owner = %+v, %v; want that it does not hold", p, err)
	}
}

// A store without fencing has no token, and one that cannot list shows nothing; both say so.
func TestLesserStores(t *testing.T) {
	f := newFake()
	f.traits = func(t *driver.Traits) { t.Fencing, t.MinTTL = driver.NoFencing, 20*time.Second }
	_, url := start(t, struct{ driver.Driver }{f}, nil)
	u := &user{t, rewriting(url)}
	if a := u.gets(200, "", "PUT", "a", ""); strings.Contains(a.text, "token") || a.Valid < 19000 {
		t.Errorf("put = %s; want no token, and the store's shortest lease", a.text)
	}
	if a := u.gets(400, "invalid", "PUT", "a?ttl=10s", ""); !strings.Contains(a.Message, "from 20s to 24h0m0s") {
		t.Errorf("a ttl that is too short for the store = %s", a.text)
	}
	u.gets(501, "unsupported", "GET", "a", "")
	f.traits = func(t *driver.Traits) { t.MaxTTL = 7 * time.Second }
	if a := u.gets(200, "", "PUT", "b", ""); !strings.HasSuffix(a.Handle, ".7000") || a.Valid > 7000 {
		t.Errorf("put = %s; want the store's longest lease in the handle", a.text)
	}
	if a := u.gets(400, "invalid", "PUT", "b?ttl=10s", ""); !strings.Contains(a.Message, "from 1s to 7s") {
		t.Errorf("a ttl that is too long for the store = %s", a.text)
	}
}

// Each name is one lock, whatever its characters, and no name is redirected to another.
func TestNamesInPaths(t *testing.T) {
	f := newFake()
	_, url := start(t, f, nil)
	for path, name := range map[string]string{
		"/v1/locks/a": "a", "/v1/locks/a/b": "a/b", "/v1/locks/a%2Fb": "a/b", "/v1/locks/a//b": "a//b", "/v1/locks//": "/",
		"/v1/locks/a/../b": "a/../b", "/v1/locks/.": ".", "/v1/locks/%2e%2e": "..", "/v1/locks/a%252Fb": "a%2Fb",
		"/v1/locks/%E4%B8%96": "世", "/v1/locks/a+b": "a+b", "/v1/locks/a%3Fb": "a?b",
		"/v1/locks?name=a%2F%2Fb": "a//b", "/v1/locks?name=a+b": "a b",
	} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host, r.RemoteAddr, r.RequestURI, r.URL.Host, r.URL.Scheme = "", "", "", strings.TrimPrefix(url, "http://"), "http"
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		var a said
		if err := json.NewDecoder(res.Body).Decode(&a); err != nil || res.StatusCode != 200 || a.Name != name {
			t.Errorf("%s = %s, %+v, %v; want name %q", path, res.Status, a, err, name)
		}
		res.Body.Close()
	}
}

// A wrong request is refused by a sentence with the right form. No message shows a handle.
func TestWrongRequestsForLocks(t *testing.T) {
	f := newFake()
	_, url := start(t, f, nil)
	full := myID + ".7.1.3.15000"
	for _, tt := range []struct {
		name, method, path, handle, text string
		status                           int
		says                             string
	}{
		{"wait without a unit", "PUT", "/a?wait=30", "", "", 400, "wait is from 0s to 5m0s, a number with its unit, such as 1.5s, 30s or 2m"},
		{"negative wait", "PUT", "/a?wait=-1s", "", "", 400, "wait is from 0s to 5m0s"},
		{"long wait", "PUT", "/a?wait=1h", "", "", 400, "wait is from 0s to 5m0s"},
		{"empty wait", "PUT", "/a?wait=", "", "", 400, "wait is from 0s to 5m0s"},
		{"two waits", "PUT", "/a?wait=1s&wait=2s", "", "", 400, "the parameter wait is there 2 times"},
		{"short ttl", "PUT", "/a?ttl=1ms", "", "", 400, "ttl is from 1s to 24h0m0s"},
		{"long ttl", "PUT", "/a?ttl=25h", "", "", 400, "ttl is from 1s to 24h0m0s"},
		{"ttl beyond all numbers", "PUT", "/a?ttl=1e9999", "", "", 400, "ttl is from 1s to 24h0m0s"},
		{"ttl of a renewal", "POST", "/a?ttl=x", full, "", 400, "ttl is from 1s to 24h0m0s"},
		{"unknown parameter", "PUT", "/a?timeout=3s", "", "", 400, `PUT has no parameter "timeout"; it may have wait, ttl, shared, permits, of, owner, reason`},
		{"handle in the URL", "DELETE", "/a?handle=" + full, "", "", 400, `DELETE has no parameter "handle"; it may have shared, permits, of`},
		{"wait of a renewal", "POST", "/a?wait=3s", full, "", 400, `POST has no parameter "wait"; it may have ttl`},
		{"two names", "PUT", "/a?name=b", "", "", 400, `PUT has no parameter "name"`},
		{"broken escape", "PUT", "?name=%zz", "", "", 400, "the URL's parameters cannot be read"},
		{"semicolon", "PUT", "/a?wait=1s;ttl=2s", "", "", 400, "the URL's parameters cannot be read"},
		{"no name", "PUT", "", "", "", 400, "the name is empty: the lock's name follows /v1/locks/, or is the parameter name of /v1/locks"},
		{"empty name", "PUT", "/", "", "", 400, "the name is empty"},
		{"long name", "PUT", "/" + strings.Repeat("x", 256), "", "", 400, "the limit is 255"},
		{"control character", "PUT", "/a%0A", "", "", 400, "control character U+000A"},
		{"not UTF-8", "PUT", "/a%FF", "", "", 400, "not valid UTF-8"},
		{"owner not UTF-8", "PUT", "/a?owner=%FF", "", "", 400, "not valid UTF-8"},
		{"long owner", "PUT", "/a?owner=" + strings.Repeat("x", api.MaxText+1), "", "", 400, "owner has 1025 bytes; the limit is 1024"},
		{"long reason", "PUT", "/a?reason=" + strings.Repeat("x", driver.MaxRecord), "", "", 400, "the limit is 4000"},
		{"shared", "PUT", "/a?shared=yes", "", "", 400, "shared is true or false"},
		{"shared permits", "PUT", "/a?shared=true&of=3", "", "", 400, "shared does not go with permits and of"},
		{"permits of nothing", "PUT", "/a?permits=3", "", "", 400, "permits needs of"},
		{"no permits", "PUT", "/a?permits=0&of=3", "", "", 400, "permits is a number from 1 to 3"},
		{"too many permits", "PUT", "/a?permits=4&of=3", "", "", 400, "permits is a number from 1 to 3"},
		{"of nothing", "PUT", "/a?of=x", "", "", 400, "of is a number from 1 to 2147483646"},
		{"body", "PUT", "/a", "", "wait=30s", 400, "has no body: what it asks for is in the URL"},
		{"method", "PATCH", "/a", "", "", 405, "taken by PUT, renewed by POST, released by DELETE and shown by GET"},
		{"head", "HEAD", "/a", "", "", 405, ""},
		{"renewal without a handle", "POST", "/a", "", "", 400, "the request needs the header Stile-Handle"},
		{"renewal by an id", "POST", "/a", myID, "", 400, "the request needs the header Stile-Handle"},
		{"release without a handle", "DELETE", "/a", "", "", 400, "the request needs the header Stile-Handle"},
		{"short id", "PUT", "/a", "secret", "", 400, "from 22 to 64 letters and digits"},
		{"long id", "PUT", "/a", strings.Repeat("x", 65), "", 400, "from 22 to 64 letters and digits"},
		{"id with a space", "PUT", "/a", myID + " x", "", 400, "from 22 to 64 letters and digits"},
		{"handle cut", "POST", "/a", myID + ".7.1", "", 400, "is a handle from an answer"},
		{"handle of text", "POST", "/a", myID + ".7.1.3.x", "", 400, "is a handle from an answer"},
		{"handle of nothing", "POST", "/a", myID + ".7.0.3.15000", "", 400, "is a handle from an answer"},
		{"handle of too much", "POST", "/a", myID + ".7.4.3.15000", "", 400, "is a handle from an answer"},
		{"handle for ever", "POST", "/a", myID + ".7.1.3.99999999999", "", 400, "is a handle from an answer"},
		{"handle of another request", "PUT", "/a?of=4", full, "", 400, "are not those of the PUT that the handle comes from"},
		{"handle of a mutex for a reader", "PUT", "/a?shared=true", full, "", 400, "are not those of the PUT that the handle comes from"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), tt.method, url+"/v1/locks"+tt.path, strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if tt.handle != "" {
				r.Header.Set("Stile-Handle", tt.handle)
			}
			res, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			text, _ := io.ReadAll(res.Body)
			var a said
			if tt.method != "HEAD" && json.Unmarshal(text, &a) != nil || res.StatusCode != tt.status || !strings.Contains(a.Message, tt.says) {
				t.Errorf("%d %s; want %d and %q", res.StatusCode, text, tt.status, tt.says)
			}
			if tt.method != "HEAD" && (a.Code != "invalid" || a.Outcome != "refused") {
				t.Errorf("%s is no refusal", text)
			}
			if tt.handle != "" && strings.Contains(string(text), tt.handle) || strings.Contains(string(text), myID) {
				t.Errorf("%s repeats the handle", text)
			}
		})
	}
	if all, err := f.List(t.Context(), &driver.Query{}); err != nil || len(all) > 0 {
		t.Errorf("wrong requests have left %+v, %v", all, err)
	}
}

// Trap: a store finds a claim by its id. A PUT for a writer with the id of a reader, or for more permits with the id of fewer, is
// another claim: its client does not have what the first one has.
func TestIDOfAnotherShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUser(t, newFake())
		a := u.gets(200, "", "PUT", "a?shared=true", myID)
		u.gets(200, "", "PUT", "a?shared=true", "")
		u.gets(409, "held", "PUT", "a", myID)
		u.gets(409, "capacity", "PUT", "a?of=3", myID)
		if b := u.gets(200, "", "PUT", "a?shared=true", myID); b.Handle != a.Handle || b.Token != a.Token {
			t.Errorf("the same put again = %s; want %s", b.text, a.text)
		}
		u.gets(200, "", "PUT", "p?permits=2&of=5", myID)
		u.gets(409, "held", "PUT", "p?permits=4&of=5", myID)
		u.gets(410, "gone", "DELETE", "p", myID)
		u.gets(400, "invalid", "DELETE", "a?of=3", a.Handle)
		u.gets(200, "", "DELETE", "a?shared=true", myID)
		u.gets(200, "", "DELETE", "p?permits=2&of=5", myID)
		u.gets(410, "gone", "POST", "a", a.Handle)
	})
}

// Trap: some drivers know a client's claim by its id alone. An id or a handle of a claim to one name finds nothing at another.
func TestIDOfAnotherName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var mu sync.Mutex // guards the map
		byID := map[string]driver.Place{}
		f.enter = func(ctx context.Context, c *driver.Claim) (driver.Place, error) {
			mu.Lock()
			defer mu.Unlock()
			if p, ok := byID[c.ID]; ok {
				return p, nil
			}
			p, err := f.Driver.Enter(ctx, c)
			if err == nil && p.Holds {
				byID[c.ID] = p
			}
			return p, err
		}
		u := newUser(t, f)
		u.gets(200, "", "PUT", "b", "")
		const own = "0123456789012345678901"
		a := u.gets(200, "", "PUT", "a", own)
		u.gets(409, "held", "PUT", "b", own)
		u.gets(410, "place_lost", "PUT", "b", a.Handle)
		u.gets(410, "gone", "POST", "b", a.Handle)
		if r, err := u.do(t.Context(), "DELETE", "b", a.Handle); err != nil || r.status != 410 {
			t.Errorf("DELETE b with the handle of a = %d %s, %v; want 410", r.status, r.text, err)
		}
		u.gets(200, "", "POST", "a", a.Handle)
	})
}
