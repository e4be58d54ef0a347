//go:build unix

package drive

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/server"
)

// SimpleServed tests what programs such as curl rely on in the simple API of the lock service: over some replicas of it, each with
// its own driver of a store.
func SimpleServed(t *testing.T, replicas int, store drivertest.Store) {
	o := &server.Options{Authenticate: func(r *http.Request) (*server.Principal, error) {
		name := cmp.Or(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "viewer")
		return &server.Principal{Name: name, Rights: []server.Right{{Verbs: server.Verbs}}}, nil
	}}
	s := &simple{}
	for range replicas {
		s.at = append(s.at, "http://"+serve(t, 1, o, store.Open))
	}
	s.client = client(t, "stile://:go@"+strings.TrimPrefix(s.at[0], "http://"))
	s.fenced = s.client.Traits().Fencing != driver.NoFencing
	lease, err := s.client.Mutex("ready").Lock(Timely(t)) // over some stores a service first stands by
	if err == nil {
		err = lease.Unlock()
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, check := range map[string]func(*simple){
		"taken": (*simple).taken, "queue": (*simple).queue, "broken": (*simple).broken, "lapses": (*simple).lapses,
	} {
		t.Run(name, func(t *testing.T) {
			c := *s
			c.T, c.name = t, name
			check(&c)
		})
	}
}

// A simple is a check of one lock.
type simple struct {
	*testing.T
	at     []string // the beginnings of the replicas' URLs
	client *stile.Client
	name   string
	fenced bool
}

// A curl is a program of a principal. Each of its requests goes to another replica than the one before, if there are several.
type curl struct {
	*simple
	principal string
	handle    string // of the last answer that had one
	requests  int
}

func (s *simple) by(principal string) *curl { return &curl{simple: s, principal: principal} }

// A reply is any answer of the simple API, or why there is none. The token is text.
type reply struct {
	status              int
	err                 error
	Handle, Token, Code string
	Valid               int64 `json:"valid_ms"`
	Claims              []struct{ Token, Principal string }
}

func (c *curl) ask(ctx context.Context, method, query string) (a reply) {
	r, err := http.NewRequestWithContext(ctx, method, c.at[c.requests%len(c.at)]+"/v1/locks/"+c.name+query, nil)
	if err != nil {
		return reply{err: err}
	}
	c.requests++
	r.Header.Set("Authorization", "Bearer "+c.principal)
	if c.handle != "" {
		r.Header.Set("Stile-Handle", c.handle)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return reply{err: err}
	}
	defer res.Body.Close()
	a.status, a.err = res.StatusCode, json.NewDecoder(res.Body).Decode(&a)
	return a
}

// waits begins a PUT that waits.
func (c *curl) waits(ctx context.Context) <-chan reply {
	answer := make(chan reply, 1)
	go func() { answer <- c.ask(ctx, http.MethodPut, "?wait=50s") }()
	return answer
}

// is fails unless an answer has a status, and an error's code or "".
func (c *curl) is(a reply, status int, code string) reply {
	c.Helper()
	if a.err != nil || a.status != status || a.Code != code {
		c.Fatalf("%s gets %+v; want %d %s", c.principal, a, status, code)
	}
	c.handle = cmp.Or(a.Handle, c.handle)
	return a
}

// gets sends a request whose answer has a status, and an error's code or "".
func (c *curl) gets(status int, code, method, query string) reply {
	c.Helper()
	return c.is(c.ask(Timely(c), method, query), status, code)
}

// token returns the token of Go's client as the simple API has it.
func (s *simple) token(n int64) string {
	if s.fenced {
		return strconv.FormatInt(n, 10)
	}
	return ""
}

// rise fails unless each token is larger than the one before. Without fencing there is none.
func (s *simple) rise(tokens ...string) {
	s.Helper()
	last := int64(0)
	for _, token := range tokens {
		n, err := strconv.ParseInt(token, 10, 64)
		if s.fenced && (err != nil || n <= last) || !s.fenced && token != "" {
			s.Errorf("the tokens are %q; want each larger than the one before, or none without fencing", tokens)
		}
		last = n
	}
}

// until waits until the queue has a number of claims.
func (s *simple) until(claims int) {
	s.Helper()
	look := s.by("viewer")
	servertest.Until(s.T, fmt.Sprint(claims, " claims"), func() bool { return len(look.gets(200, "", "GET", "").Claims) == claims })
}

var waitingRequests = regexp.MustCompile(`(?m)^stile_serve_waiting_requests (\d+)$`)

// waiting waits until a number of requests wait at the replicas.
func (s *simple) waiting(requests int) {
	s.Helper()
	servertest.Until(s.T, fmt.Sprint(requests, " requests wait"), func() bool {
		sum := 0
		for _, at := range s.at {
			n, err := waitingAt(s.Context(), at)
			if err != nil {
				s.Fatal(err)
			}
			sum += n
		}
		return sum == requests
	})
}

// waitingAt returns how many requests wait at a replica.
func waitingAt(ctx context.Context, url string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	n := waitingRequests.FindSubmatch(text)
	if n == nil {
		return 0, fmt.Errorf("the metrics do not say how many requests wait: %s", text)
	}
	return strconv.Atoi(string(n[1]))
}

// taken: a lock is taken, renewed and released by its handle, which is of no use to another principal. Go's client sees the same
// lock and the same tokens.
func (s *simple) taken() {
	one, thief := s.by("one"), s.by("thief")
	a := one.gets(200, "", "PUT", "")
	thief.gets(409, "held", "PUT", "")
	q, err := s.client.Show(Timely(s), s.name)
	if err != nil || len(q.Claims) != 1 || q.Claims[0].Holder.Principal != "one" || s.token(q.Claims[0].Ticket) != a.Token {
		s.Errorf("Go's client sees %+v, %v; want the claim of one with the token %s", q, err, a.Token)
	}
	thief.handle = one.handle
	thief.gets(410, "gone", "POST", "")
	thief.gets(410, "gone", "DELETE", "")
	if b := one.gets(200, "", "POST", ""); b.Token != a.Token || b.Handle != a.Handle {
		s.Errorf("the renewal = %+v; want the token and the handle of %+v", b, a)
	}
	one.gets(200, "", "DELETE", "")
	one.gets(410, "gone", "DELETE", "")
	lease, err := s.client.Mutex(s.name).Lock(Timely(s))
	if err != nil {
		s.Fatal(err)
	}
	shown := one.gets(200, "", "GET", "").Claims
	if len(shown) != 1 || shown[0].Principal != "go" || shown[0].Token != s.token(lease.Token()) {
		s.Errorf("curl sees %+v; want the claim of Go's client with the token %d", shown, lease.Token())
	}
	one.handle = ""
	one.gets(409, "held", "PUT", "")
	if err := lease.Unlock(); err != nil {
		s.Fatal(err)
	}
	s.rise(a.Token, s.token(lease.Token()), one.gets(200, "", "PUT", "").Token)
}

// queue: a lock is handed over in order. A program that lost its replica waits on by another, at its place.
func (s *simple) queue() {
	one, first, second := s.by("one"), s.by("first"), s.by("second")
	a := one.gets(200, "", "PUT", "")
	one.gets(200, "", "POST", "?ttl=1m")
	first.handle = "0123456789abcdefghijkl"
	ctx, cancel := context.WithCancel(Timely(s))
	defer cancel()
	lost := first.waits(ctx)
	s.until(2)
	last := second.waits(Timely(s))
	s.until(3)
	cancel()
	if b := <-lost; b.err == nil {
		s.Errorf("a PUT whose connection has ended gets %+v", b)
	}
	s.waiting(1)
	again := first.waits(Timely(s))
	s.waiting(2)
	one.gets(200, "", "DELETE", "")
	b := first.is(<-again, 200, "")
	if len(last) > 0 {
		s.Error("the second in the queue has an answer while the first holds the lock")
	}
	first.gets(200, "", "POST", "")
	first.gets(200, "", "DELETE", "")
	s.rise(a.Token, b.Token, second.is(<-last, 200, "").Token)
}

// broken: a lock that somebody breaks is gone for its holder, and free.
func (s *simple) broken() {
	one, next := s.by("one"), s.by("next")
	a := one.gets(200, "", "PUT", "")
	c, err := s.client.Break(Timely(s), s.name, stile.BreakOptions{Head: true, Reason: "a test"})
	if err != nil || c.Holder.Principal != "one" || s.token(c.Ticket) != a.Token {
		s.Fatalf("the break = %+v, %v; want the claim of one with the token %s", c, err, a.Token)
	}
	one.gets(410, "gone", "POST", "")
	one.gets(410, "gone", "DELETE", "")
	s.rise(a.Token, next.is(<-next.waits(Timely(s)), 200, "").Token)
}

// lapses: a lock that is not renewed is gone and free when its lease is over, and not before.
func (s *simple) lapses() {
	one, next := s.by("one"), s.by("next")
	begun := time.Now()
	a := one.gets(200, "", "PUT", fmt.Sprint("?ttl=", max(time.Second, s.client.Traits().MinTTL)))
	b := next.is(<-next.waits(Timely(s)), 200, "")
	if valid := time.Duration(a.Valid) * time.Millisecond; valid == 0 || time.Since(begun) < valid {
		s.Errorf("the next has the lock %v after the first PUT, whose answer is valid for %v", time.Since(begun), valid)
	}
	one.gets(410, "gone", "POST", "")
	one.gets(410, "place_lost", "PUT", "")
	s.rise(a.Token, b.Token)
}
