//go:build unix

package remote_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/server"
	"github.com/stilelock/stile/store/memory"
	"github.com/stilelock/stile/store/remote"
)

// open opens a driver for services at some addresses.
func open(t *testing.T, addrs ...string) driver.Driver {
	t.Helper()
	d := drive.Opener("stile://" + strings.Join(addrs, ","))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

// service starts a service over a store, behind a handler of the test.
func service(t *testing.T, d driver.Driver, stand func(next http.Handler) http.Handler) (addr string, s *server.Server) {
	t.Helper()
	s, err := server.New(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(stand(s))
	t.Cleanup(func() {
		s.EndWaits()
		web.CloseClientConnections()
		web.Close()
		d.Close()
	})
	return web.Listener.Addr().String(), s
}

func nobody(next http.Handler) http.Handler { return next }

// nowhere is an address without a listener.
func nowhere(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// judge fails unless an error has an outcome and the mark Unreachable, or not.
func judge(t *testing.T, what string, err error, outcome driver.Outcome, unreachable bool) {
	t.Helper()
	if err == nil || driver.OutcomeOf(err) != outcome || driver.IsUnreachable(err) != unreachable {
		t.Errorf("%s = %v (%v, unreachable: %v); want %v, unreachable: %v", what, err, driver.OutcomeOf(err), driver.IsUnreachable(err),
			outcome, unreachable)
	}
}

// An answer that is not the service's came from something between, and leaves the outcome unknown.
func TestAnswersOfOthers(t *testing.T) {
	for _, tt := range []struct {
		name, kind, text string
		status           int
		unreachable      bool
	}{
		{"proxy without a server", "text/html", "<html>502 Bad Gateway</html>", 502, true},
		{"proxy that is tired", api.JSON, `{"message":"upstream timed out"}`, 504, true},
		{"page for everything", "text/html", "<html>Please log in</html>", 200, false},
		{"other JSON", api.JSON, `{}`, 200, false},
		{"other JSON of an error", api.JSON, `{"code":404,"message":"not found"}`, 404, false},
		{"the right JSON, said to be text", "text/plain", `{"place":{"ticket":"1","holds":true},"left":true}`, 200, false},
		{"half an answer", api.JSON, `{"place":{"tick`, 200, false},
		{"redirect", "text/html", "", 307, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var meant atomic.Bool
			var asked atomic.Int64
			addr, _ := service(t, memory.New(), func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !meant.Load() {
						next.ServeHTTP(w, r)
						return
					}
					asked.Add(1)
					w.Header().Set("Location", r.URL.Path)
					w.Header().Set("Content-Type", tt.kind)
					w.WriteHeader(tt.status)
					fmt.Fprint(w, tt.text)
				})
			})
			d := open(t, addr, addr)
			meant.Store(true)
			c := drive.Claim("a", "x")
			_, err := d.Enter(t.Context(), c)
			judge(t, "enter", err, driver.OutcomeUnknown, tt.unreachable)
			judge(t, "renew", d.Renew(t.Context(), []*driver.Claim{c})[0].Err, driver.OutcomeUnknown, tt.unreachable)
			judge(t, "leave", d.Leave(t.Context(), &driver.Release{Claim: c}), driver.OutcomeUnknown, tt.unreachable)
			_, err = d.(driver.Lister).List(t.Context(), &driver.Query{Name: "a"})
			judge(t, "list", err, driver.OutcomeUnknown, tt.unreachable)
			judge(t, "watch", d.(driver.Watcher).Watch(t.Context(), "a", func() {}), driver.OutcomeUnknown, tt.unreachable)
			if n := asked.Load(); n != 5 {
				t.Errorf("5 calls were %d requests; want one each", n)
			}
		})
	}
}

// A request that was not sent to one host is sent to the next. A host without a listener was sent nothing.
func TestHosts(t *testing.T) {
	store := memory.NewStore()
	addr, _ := service(t, store.Driver(), nobody)
	d := open(t, nowhere(t), addr)
	c := drive.Claim("a", "x")
	drive.Holds(t, d, c)
	drive.Leave(t, d, c)
	_, err := driver.Open(t.Context(), "stile://"+nowhere(t)+","+nowhere(t))
	judge(t, "open where nobody listens", err, driver.OutcomeUnsent, true)
}

// An address that accepts connections and breaks them, as a proxy without a service does, keeps nobody from the next.
func TestHostBreaksConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	store := memory.NewStore()
	addr, _ := service(t, store.Driver(), nobody)
	drive.Enter(t, open(t, l.Addr().String(), addr), drive.Claim("a", "x"))
}

// Trap: a replica may answer and not reach its store, while another does. It reports this for each claim of a renewal. A
// client that only renews must not ask it again until its leases are over.
func TestReplicaWithoutItsStore(t *testing.T) {
	store := memory.NewStore()
	cut := store.Driver()
	lost := &losing{Driver: store.Driver()}
	one, _ := service(t, cut, nobody)
	two, _ := service(t, lost, nobody)
	three, _ := service(t, store.Driver(), nobody)
	d := open(t, one, two, three)
	c := drive.Claim("a", "x")
	drive.Holds(t, d, c)
	cut.SetLink(memory.Refused)
	if r := d.Renew(t.Context(), []*driver.Claim{c})[0]; r.Err != nil || r.TTL == 0 {
		t.Errorf("a renewal whose first replica does not reach its store = %+v; want that of the second", r)
	}
	lost.lost.Store(true)
	judge(t, "renewal by a replica that may have asked its store", d.Renew(t.Context(), []*driver.Claim{c})[0].Err, driver.OutcomeUnknown, true)
	if r := d.Renew(t.Context(), []*driver.Claim{c})[0]; r.Err != nil {
		t.Errorf("the next renewal = %v; want that of the third replica", r.Err)
	}
}

// Trap: the answer to a wait is lost, from a replica that the store then notifies of the claim. The replica before it hears
// no more.
func TestWaitIsLost(t *testing.T) {
	store := memory.NewStore()
	var replicas []string // of the requests to wait
	addr, _ := service(t, &telling{store.Driver()}, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != api.Await {
				next.ServeHTTP(w, r)
				return
			}
			var q api.AwaitRequest
			if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
				t.Error(err)
			}
			replicas = append(replicas, q.Replica)
			w.WriteHeader(http.StatusBadGateway)
		})
	})
	d := open(t, addr)
	drive.Holds(t, d, drive.Claim("a", "x"))
	c := drive.Claim("a", "y")
	c.Ticket = drive.Enter(t, d, c).Ticket
	for range 2 {
		if _, err := d.Await(t.Context(), c); err == nil {
			t.Error("the wait is answered")
		}
	}
	if len(replicas) != 2 || replicas[0] == "" || replicas[1] != "" {
		t.Errorf("the waits name the replicas %q; want the one of the Enter, and then none", replicas)
	}
}

// A telling store notifies only one driver of a turn.
type telling struct{ *memory.Driver }

func (d *telling) Adopt(_ context.Context, c *driver.Claim) (driver.Place, error) {
	return driver.Place{Ticket: c.Ticket}, nil
}

// A losing store gets its requests, and may lose its answers.
type losing struct {
	*memory.Driver
	lost atomic.Bool
}

func (l *losing) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	all := l.Driver.Renew(ctx, cs)
	for i := range all {
		if l.lost.Load() {
			all[i] = driver.Renewal{Err: driver.Unreachable(io.ErrUnexpectedEOF)}
		}
	}
	return all
}

// Trap: a host that accepts a connection and stays silent leaves no request unsent. The next request must not ask it again,
// or renewals fail until every lease is over.
func TestSilentHost(t *testing.T) {
	t.Parallel()
	store := memory.NewStore()
	var silent atomic.Bool
	first, _ := service(t, store.Driver(), func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if silent.Load() {
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	second, _ := service(t, store.Driver(), nobody)
	for name, call := range map[string]func(context.Context, driver.Driver, *driver.Claim) error{
		"renew": func(ctx context.Context, d driver.Driver, c *driver.Claim) error {
			return d.Renew(ctx, []*driver.Claim{c})[0].Err
		},
		"list": func(ctx context.Context, d driver.Driver, _ *driver.Claim) error {
			_, err := d.(driver.Lister).List(ctx, &driver.Query{})
			return err
		},
	} {
		silent.Store(false)
		d, c := open(t, first, second), drive.Claim(name, "x")
		drive.Holds(t, d, c)
		silent.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		judge(t, name+" at a silent host", call(ctx, d, c), driver.OutcomeUnknown, false)
		cancel()
		if err := call(drive.Timely(t), d, c); err != nil {
			t.Errorf("%s after that = %v; want nil: the other host answers", name, err)
		}
	}
	open(t, first, second+"?dial_timeout=2s").Close()
	silent.Store(false)
	d := open(t, first, second)
	silent.Store(true)
	remote.SetSilence(d, 100*time.Millisecond)
	judge(t, "watch at a silent host", d.(driver.Watcher).Watch(drive.Timely(t), "a", func() {}), driver.OutcomeUnknown, true)
	remote.SetSilence(d, time.Minute)
	ctx, cancel := context.WithCancel(drive.Timely(t))
	if err := d.(driver.Watcher).Watch(ctx, "a", cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("watch after that = %v; want it to begin: the other host answers", err)
	}
}

// Trap: with TLS a host that accepts a connection and stays silent has got no request, so the next host gets it.
func TestSilentHandshake(t *testing.T) {
	t.Parallel()
	ca, web := secured(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := drive.Opener("stiles://" + l.Addr().String() + "," + web + "?dial_timeout=2s&tls_ca=" + ca)(t)
	defer d.Close()
	drive.Holds(t, d, drive.Claim("a", "x"))
}

// A wait that ends with its server continues at the next one.
func TestServerEnds(t *testing.T) {
	store := memory.NewStore()
	begun := make(chan struct{}, 10)
	first, ending := service(t, store.Driver(), func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == api.Await {
				begun <- struct{}{}
			}
			next.ServeHTTP(w, r)
		})
	})
	second, _ := service(t, store.Driver(), nobody)
	d := open(t, first, second)
	holder, waiter := drive.Claim("a", "holder"), drive.Claim("a", "waiter")
	drive.Holds(t, d, holder)
	drive.Waits(t, d, waiter)
	told := make(chan error, 1)
	go func() {
		_, err := d.Await(t.Context(), waiter)
		told <- err
	}()
	<-begun
	ending.EndWaits()
	drive.Leave(t, d, holder)
	if err := <-told; err != nil {
		t.Errorf("await = %v; want nil", err)
	}
	drive.Holds(t, d, waiter)
}

// A less able store has only some of the optional interfaces.
type (
	plain struct{ driver.Driver }
	lists struct {
		plain
		driver.Lister
	}
	watches struct {
		plain
		driver.Watcher
	}
	breaks struct {
		plain
		driver.Breaker
	}
	noBreak struct {
		lists
		driver.Watcher
	}
	noWatch struct {
		lists
		driver.Breaker
	}
	noList struct {
		watches
		driver.Breaker
	}
	complete struct {
		noBreak
		driver.Breaker
	}
)

// Trap: a driver with all interfaces over a store that lacks some would promise too much.
func TestDriverHasTheStoresInterfaces(t *testing.T) {
	m := memory.New()
	p := plain{m}
	for _, d := range []driver.Driver{
		p, lists{p, m}, watches{p, m}, breaks{p, m}, noBreak{lists{p, m}, m}, noWatch{lists{p, m}, m}, noList{watches{p, m}, m},
		complete{noBreak{lists{p, m}, m}, m},
	} {
		addr, _ := service(t, d, nobody)
		got := open(t, addr)
		if a, b := interfaces(got), interfaces(d); a != b {
			t.Errorf("a %T has %s; want %s", d, a, b)
		}
		if _, err := got.(driver.Identifier).Identity(t.Context()); !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("the identity of a store without one = %v; want ErrUnsupported", err)
		}
	}
	addr, _ := service(t, memory.New(), nobody)
	if id, err := open(t, addr).(driver.Identifier).Identity(t.Context()); id == "" || err != nil {
		t.Errorf("the identity = %q, %v", id, err)
	}
}

func interfaces(d driver.Driver) string {
	_, l := d.(driver.Lister)
	_, w := d.(driver.Watcher)
	_, b := d.(driver.Breaker)
	return fmt.Sprint("lists ", l, ", watches ", w, ", breaks ", b)
}

// Claims that exceed one request are renewed by several, each at its own index.
func TestManyRenewals(t *testing.T) {
	m := memory.New()
	var requests atomic.Int64
	addr, _ := service(t, m, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == api.Renew {
				requests.Add(1)
			}
			next.ServeHTTP(w, r)
		})
	})
	d := open(t, addr)
	var all []*driver.Claim
	for i := range 2*api.MaxClaims + 100 {
		c := drive.Claim(fmt.Sprint("name ", i), fmt.Sprint("x", i))
		c.Record = strings.Repeat("\xff", driver.MaxRecord)
		all = append(all, c)
		if i%3 == 0 {
			drive.Holds(t, d, c)
		}
	}
	all[6].Owner = "\xff"
	for i, r := range d.Renew(t.Context(), all) {
		switch {
		case i == 6:
			judge(t, "renewal of a claim that JSON cannot carry", r.Err, driver.OutcomeRefused, false)
		case i%3 == 0 && (r.Err != nil || r.TTL == 0), i%3 != 0 && !errors.Is(r.Err, driver.ErrGone):
			t.Fatalf("renewal of claim %d = %+v", i, r)
		}
	}
	if n := requests.Load(); n < 3 {
		t.Errorf("%d claims were renewed by %d requests; want several", len(all), n)
	}
}

// A store may lose traits. Its clients learn that with the next answer.
func TestTraitsChange(t *testing.T) {
	f := &fading{Driver: memory.New()}
	addr, _ := service(t, f, nobody)
	d := open(t, addr)
	if got := d.Traits(); got.Fencing != driver.ClockFencing || got.Store != "memory" {
		t.Errorf("the traits are %+v", got)
	}
	f.faded.Store(true)
	for ctx := drive.Timely(t); d.Traits().Fencing != driver.NoFencing; {
		if _, err := d.Await(ctx, drive.Claim("a", "x")); err != nil {
			t.Fatal(err)
		}
	}
}

// Trap: a newer service may send traits that this client does not know. The tag then covers more than the client's traits,
// but the client must not ask for the traits after every answer.
func TestTraitsOfANewerService(t *testing.T) {
	var asked atomic.Int64
	addr, _ := service(t, memory.New(), func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == api.Traits {
				asked.Add(1)
			}
			next.ServeHTTP(&newer{w}, r)
		})
	})
	d := open(t, addr)
	for range 20 {
		drive.Enter(t, d, drive.Claim("a", "x"))
	}
	d.Close()
	if n := asked.Load(); n > 2 {
		t.Errorf("the traits were asked for %d times; want once, or twice", n)
	}
}

// A newer service has another tag, since its traits have more.
type newer struct{ http.ResponseWriter }

func (n *newer) WriteHeader(status int) {
	n.Header().Set(api.TraitsTag, "of more")
	n.ResponseWriter.WriteHeader(status)
}

// A fading store promises less over time.
type fading struct {
	*memory.Driver
	faded atomic.Bool
}

func (f *fading) Traits() driver.Traits {
	t := f.Driver.Traits()
	if f.faded.Load() {
		t.Fencing = driver.NoFencing
	}
	return t
}

// A watch ends when its service falls silent or is gone.
func TestWatchOfTheDead(t *testing.T) {
	for name, dies := range map[string]func(w http.ResponseWriter, r *http.Request){
		"silent": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"cut":    func(http.ResponseWriter, *http.Request) {},
	} {
		t.Run(name, func(t *testing.T) {
			addr, _ := service(t, memory.New(), func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path != api.Watch {
						next.ServeHTTP(w, r)
						return
					}
					w.Header().Set("Content-Type", api.Events)
					fmt.Fprint(w, api.EventChanged+"\n"+api.EventData+"{}\n\n")
					_ = http.NewResponseController(w).Flush()
					dies(w, r)
				})
			})
			d := open(t, addr)
			remote.SetSilence(d, 200*time.Millisecond)
			changes := 0
			err := d.(driver.Watcher).Watch(drive.Timely(t), "a", func() { changes++ })
			if changes != 1 || !driver.IsUnreachable(err) || errors.Is(err, context.Canceled) {
				t.Errorf("watch = %v after %d changes; want unreachable after one", err, changes)
			}
		})
	}
}

// secured starts a service with TLS, and returns a file with its authority, and its address.
func secured(t *testing.T) (ca, addr string) {
	t.Helper()
	s, err := server.New(memory.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(s)
	web.Config.ErrorLog = log.New(io.Discard, "", 0) // a handshake that the client ends
	web.StartTLS()
	t.Cleanup(web.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return ca, web.Listener.Addr().String()
}

// With TLS the client checks the service's certificate against the authorities of the URL.
func TestTLS(t *testing.T) {
	ca, addr := secured(t)
	url := "stiles://" + addr
	d := drive.Opener(url + "?tls_ca=" + ca)(t)
	defer d.Close()
	drive.Holds(t, d, drive.Claim("a", "x"))
	if _, err := driver.Open(t.Context(), url); driver.OutcomeOf(err) != driver.OutcomeUnsent || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("open with the system's authorities = %v; want the certificate's fault, before anything was sent", err)
	}
}

func TestURLs(t *testing.T) {
	for url, says := range map[string]string{
		"stile://user:hunter2@h":          "no user",
		"stile://h/locks":                 "no path",
		"stile://h?no_such=1":             "known: dial_timeout",
		"stile://h?dial_timeout=soon":     "dial_timeout",
		"stiles://h?tls_ca=/nowhere/file": "tls_ca",
	} {
		_ = drive.Refuses(t, url, says)
	}
}
