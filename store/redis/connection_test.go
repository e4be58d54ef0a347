package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/servertest"
)

// The server is killed while one claim holds and one waits, and comes back with both.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	one, two := open(t, "redis://"+s.Addr), open(t, "redis://"+s.Addr)
	if !one.Traits().Restart {
		t.Errorf("the driver does not count on a restart: %q", one.Traits().Remarks())
	}
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, one, a)
	enter(t, two, b)
	listens(t, two, b)
	woken := make(chan error, 1)
	go func() {
		_, err := two.Await(timely(t), b)
		woken <- err
	}()
	s.Kill()
	if err := <-woken; err != nil {
		t.Errorf("await ends with %v when the connection is lost", err)
	}
	var err error
	servertest.Until(t, "there is no connection", func() bool {
		_, err = one.Enter(timely(t), a)
		return driver.NotApplied(err)
	})
	says(t, err, "cannot connect to redis at "+s.Addr, "tried for", "refused")
	marks(t, err, true, true)

	s.Restart()
	servertest.Until(t, "the holder is found again", func() bool {
		return one.Renew(timely(t), []*driver.Claim{a})[0].Err == nil
	})
	if p := enter(t, two, b); p.Holds || p.Ahead != 1 {
		t.Errorf("the waiter's place is %+v", p)
	}
	listens(t, two, b)
	brief, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if p, err := two.Await(brief, b); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("await on the new connection: %+v, %v; want it to wait", p, err)
	}
	leave(t, one, a)
	if p := await(t, two, b); p.Ticket != b.Ticket {
		t.Errorf("ticket %d, want %d", p.Ticket, b.Ticket)
	}
}

// A server without persistence comes back empty, and its claims are gone for good.
func TestServerForgets(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	if d.Traits().Restart {
		t.Error("the driver counts on a restart")
	}
	a := claim("name", "a")
	enter(t, d, a)
	s.Restart()
	servertest.Until(t, "the server is found again", func() bool {
		err := d.Renew(timely(t), []*driver.Claim{a})[0].Err
		return errors.Is(err, driver.ErrGone)
	})
	if _, err := d.Enter(timely(t), a); !errors.Is(err, driver.ErrGone) {
		t.Errorf("entering again: %v, want ErrGone", err)
	}
}

// A stopped server answers nothing. A call still ends with its context, and its outcome is unknown.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	proxy := servertest.NewProxy(t, servertest.Redis(t).Addr)
	d := open(t, "redis://"+proxy.Addr)
	a := claim("name", "a")
	enter(t, d, a)
	for _, verb := range []func(ctx context.Context) error{
		func(ctx context.Context) error { _, err := d.Enter(ctx, a); return err },
		func(ctx context.Context) error { return d.Renew(ctx, []*driver.Claim{a})[0].Err },
		func(ctx context.Context) error { _, err := d.List(ctx, &driver.Query{Name: "name"}); return err },
	} {
		proxy.Freeze(true, true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		ended := make(chan error, 1)
		go func() { ended <- verb(ctx) }()
		servertest.Until(t, "the call is under way", proxy.Holds)
		select {
		case err := <-ended:
			t.Errorf("the call ends with %v while the server hangs", err)
		default:
		}
		cancel()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) || driver.NotApplied(err) {
				t.Errorf("the call ends with %v, want the context's error and nothing about the outcome", err)
			}
		case <-awake.For(30 * time.Second):
			t.Fatal("the call outlives its context")
		}
		proxy.Freeze(false, false)
		servertest.Until(t, "the server answers", func() bool { _, err := d.Enter(timely(t), a); return err == nil })
	}
	leave(t, d, a)
}

func TestClose(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, d, a)
	enter(t, d, b)
	listens(t, d, b)
	ended := make(chan error, 2)
	go func() {
		_, err := d.Await(timely(t), b)
		ended <- err
	}()
	s.Pause()
	go func() {
		_, err := d.Enter(timely(t), a)
		ended <- err
	}()
	defer s.Resume()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		select {
		case err := <-ended:
			if err == nil {
				t.Error("a call ends without an error")
			}
		case <-awake.For(30 * time.Second):
			t.Fatal("a call outlives the driver")
		}
	}
	if err := d.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	_, entered := d.Enter(timely(t), a)
	_, awaited := d.Await(timely(t), a)
	_, listed := d.List(timely(t), &driver.Query{})
	for verb, err := range map[string]error{
		"enter": entered, "await": awaited, "list": listed,
		"leave": d.Leave(timely(t), &driver.Release{Claim: a}),
		"renew": d.Renew(timely(t), []*driver.Claim{a})[0].Err,
	} {
		if !errors.Is(err, driver.ErrClosed) {
			t.Errorf("%s after close: %v", verb, err)
		}
	}
}

// The driver works over the user's own client, and does not close it.
func TestOwnClient(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	d, err := New(client, &Options{Prefix: "mine:"})
	if err != nil {
		t.Fatal(err)
	}
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, d, a)
	enter(t, d, b)
	if got := s.Redis([]string{"EXISTS", "mine:{name}"}); got != int64(1) {
		t.Error("the key does not begin with the prefix")
	}
	listens(t, d, b)
	leave(t, d, a)
	await(t, d, b)
	s.Pause()
	ended := make(chan error, 1)
	go func() { ended <- d.Leave(timely(t), &driver.Release{Claim: b}) }()
	d.Close()
	if err := <-ended; err == nil {
		t.Error("a call ends without an error when the driver is closed")
	}
	s.Resume()
	if err := client.Do(timely(t), client.B().Ping().Build()).Error(); err != nil {
		t.Errorf("the client is of no use after the driver was closed: %v", err)
	}
}

// A client that sends some requests to a replica does not show which server is the primary, so it is refused.
func TestClientOfReplicasIsRefused(t *testing.T) {
	t.Parallel()
	set := servertest.RedisSentinel(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{set.Sentinel.Addr}, Sentinel: rueidis.SentinelOption{MasterSet: set.Name}, DisableCache: true,
		SendToReplicas: func(cmd rueidis.Completed) bool { return cmd.IsReadOnly() },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = New(client, nil)
	says(t, err, "SendToReplicas")
	marks(t, err, true, false)
	_, err = NewSetNX(client, nil)
	says(t, err, "SendToReplicas")
}

// A waiting claim sends the server no commands.
func TestWaitingIsQuiet(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	holder := claim("name", "holder")
	holder.Client = "one"
	enter(t, d, holder)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 100)
	for i := range 100 {
		c := claim("name", fmt.Sprint("waiter-", i))
		c.Client = "one"
		enter(t, d, c)
		listens(t, d, c)
		go func() {
			_, err := d.Await(ctx, c)
			ended <- err
		}()
	}
	commands := func() int { n, _ := strconv.Atoi(s.RedisInfo("total_commands_processed")); return n }
	before := commands()
	time.AfterFunc(2*time.Second, cancel) // all of them wait
	for range 100 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("await ends with %v", err)
		}
	}
	if n := commands() - before; n > 6 {
		t.Errorf("100 waiters cost %d commands in two seconds", n)
	}
	if n := s.RedisInfo("connected_clients"); n != "3" {
		t.Errorf("%s connections, want one for calls, one for messages and the test's", n)
	}
}

// A message that matches no claim has no effect.
func TestStrangeMessages(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, d, a)
	enter(t, d, b)
	listens(t, d, b)
	ticket := strconv.FormatInt(b.Ticket, 10)
	for _, text := range []string{
		"", " ", "rubbish", ticket, ticket + " b", ticket + " b stile/{other}", ticket + " c " + d.key("name"),
		"-" + " b " + d.key("name"), ticket + " b " + d.key("name") + " ",
	} {
		if got := s.Redis([]string{"PUBLISH", "stile/inbox/" + b.Client, text}); got != int64(1) {
			t.Fatalf("%v clients listen", got)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if p, err := d.Await(ctx, b); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("await: %+v, %v after messages that mean nothing", p, err)
	}
	s.Redis([]string{"PUBLISH", "stile/inbox/" + b.Client, "7 b " + d.key("name")})
	if p, err := d.Await(timely(t), b); err != nil || p.Holds {
		t.Errorf("await: %+v, %v after a message with another ticket; want an early return", p, err)
	}
}

// If the server hangs up or never answers, connecting ends with the context or with dial_timeout.
func TestConnectingEnds(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := driver.Open(ctx, "redis://"+l.Addr().String()+"?dial_timeout=1m")
		ended <- err
	}()
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("open: %v, want the context's error", err)
		}
	case <-awake.For(30 * time.Second):
		t.Fatal("open outlives its context")
	}
	_, err = driver.Open(t.Context(), "redis://"+l.Addr().String()+"?dial_timeout=1s")
	says(t, err, "cannot connect to redis at "+l.Addr().String()+" (tried for ", "no answer in time")
	_, after, _ := strings.Cut(fmt.Sprint(err), "(tried for ")
	text, _, _ := strings.Cut(after, ")")
	if tried, e := time.ParseDuration(text); e != nil || tried < time.Second || tried >= 5*time.Second {
		t.Errorf("%v; want that it was tried for a second, and not for the 5s by default", err)
	}
	marks(t, err, true, true)

	gone := l.Addr().String()
	l.Close()
	for _, scheme := range []string{"redis", "redis+cluster", "redis+sentinel"} {
		path := ""
		if scheme == "redis+sentinel" {
			path = "/main"
		}
		_, err = driver.Open(t.Context(), scheme+"://"+gone+path)
		says(t, err, "cannot connect to redis at "+gone, "tried for")
		marks(t, err, true, true)
	}
}
