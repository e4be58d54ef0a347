package quorum_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/store/memory"
	"github.com/stilelock/stile/store/quorum"
)

// A server is a store in memory of which many members can be clients. Tests tamper with its clock and its memory.
type server struct {
	mu      sync.Mutex
	store   *memory.Store
	last    map[string]int64 // the last ticket, by name
	entries map[string]entry // by the claim's id
	report  quorum.Report
	wrong   time.Duration // by how much the clock is wrong
	slow    time.Duration // how long a report takes; it reads the clock at its end
	starts  int64
	votes   int   // how many votes it was asked for
	refuse  error // the error of each vote, or nil
}

// An entry is a claim on a server. The store numbers claims by itself, and knows nothing of tickets.
type entry struct {
	name           string
	number, ticket int64
}

// number returns the store's number of the claim of a name that has a ticket, or a number that no claim has.
func (s *server) number(name string, ticket int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if e.name == name && e.ticket == ticket {
			return e.number
		}
	}
	return -1
}

// ticket returns the ticket of the claim of a name that has a number.
func (s *server) ticket(name string, number int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if e.name == name && e.number == number {
			return e.ticket
		}
	}
	return number
}

func newServer(id string) *server {
	return &server{
		store: memory.NewStore(), last: map[string]int64{}, entries: map[string]entry{},
		report: quorum.Report{ID: id, Up: time.Hour, Keeps: true},
	}
}

// restart empties the server.
func (s *server) restart(keeps bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts++
	s.report = quorum.Report{ID: fmt.Sprint(s.report.ID, "+"), Keeps: keeps, Reason: "it is a test"}
	if !keeps {
		s.store = memory.NewStore()
		s.last, s.entries = map[string]int64{}, map[string]entry{}
	}
}

// member is one client of a server.
type member struct {
	*memory.Driver
	s *server
}

func (m *member) now() *memory.Driver {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if m.Driver.Store() != m.s.store {
		m.Driver = m.s.store.Driver()
	}
	return m.Driver
}

func (m *member) Contact() int64 {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	return m.s.starts
}

func (m *member) Report(context.Context) (*quorum.Report, error) {
	m.s.mu.Lock()
	slow := m.s.slow
	m.s.mu.Unlock()
	if slow > 0 {
		<-time.After(slow)
	}
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	r := m.s.report
	r.Clock = time.Unix(1e9, 0).Add(boottime.Now() + m.s.wrong)
	return &r, nil
}

func (m *member) Vote(ctx context.Context, c *driver.Claim, least int64) (driver.Place, error) {
	own := *c
	own.Try = true
	m.s.mu.Lock()
	m.s.votes++
	refuse := m.s.refuse
	m.s.mu.Unlock()
	if refuse != nil {
		return driver.Place{}, refuse
	}
	if own.Ticket == 1 {
		own.Ticket = 0
	}
	p, err := m.now().Enter(ctx, &own)
	if err != nil || !p.Holds {
		if !c.Try && err == nil {
			p.Ticket = 1
		}
		p.Blocker.Ticket = 0
		return p, err
	}
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	e := m.s.entries[c.ID]
	if e.number != p.Ticket {
		e = entry{c.Name, p.Ticket, max(m.s.last[c.Name]+1, least)}
		m.s.last[c.Name], m.s.entries[c.ID] = e.ticket, e
	}
	p.Ticket = e.ticket
	return p, nil
}

func (m *member) Raise(ctx context.Context, c *driver.Claim, ticket int64) error {
	if err := m.now().Renew(ctx, []*driver.Claim{c})[0].Err; err != nil {
		return err
	}
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	m.s.last[c.Name] = max(m.s.last[c.Name], ticket)
	e := m.s.entries[c.ID]
	e.ticket = ticket
	m.s.entries[c.ID] = e
	return nil
}

// List shows claims with their tickets.
func (m *member) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	list, err := m.now().List(ctx, q)
	for _, l := range list {
		for i := range l.Claims {
			l.Claims[i].Ticket = m.s.ticket(l.Name, l.Claims[i].Ticket)
		}
	}
	return list, err
}

// Break finds a claim by its ticket.
func (m *member) Break(ctx context.Context, b *driver.BreakRequest) (driver.ClaimInfo, error) {
	own := *b
	if b.Ticket != 0 {
		own.Ticket = m.s.number(b.Name, b.Ticket)
	}
	c, err := m.now().Break(ctx, &own)
	if err == nil {
		c.Ticket = m.s.ticket(b.Name, c.Ticket)
	}
	return c, err
}

// Find looks for the id of the claim that has the ticket.
func (m *member) Find(ctx context.Context, c *driver.Claim) (*driver.Claim, error) {
	m.s.mu.Lock()
	found := *c
	found.ID = ""
	for id, e := range m.s.entries {
		if e.ticket == c.Ticket && (id == c.ID || strings.HasPrefix(id, c.ID+"-")) {
			found.ID = id
		}
	}
	m.s.mu.Unlock()
	list, err := m.now().List(ctx, &driver.Query{Name: c.Name})
	if err == nil && (found.ID == "" || len(list) == 0) {
		err = driver.ErrGone
	}
	if err == nil {
		found.Record = list[0].Claims[0].Record
		err = m.now().Renew(ctx, []*driver.Claim{&found})[0].Err
	}
	return &found, err
}

func (m *member) Free(ctx context.Context, name string) (bool, error) {
	list, err := m.now().List(ctx, &driver.Query{Name: name})
	return len(list) == 0, err
}

// Await waits until nobody has the name: the claim itself was refused, and has no place in the store.
func (m *member) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	changed := make(chan struct{}, 1)
	over := make(chan error, 1)
	go func() {
		over <- m.now().Watch(watching, c.Name, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	}()
	for {
		select {
		case <-changed:
			if free, err := m.Free(ctx, c.Name); free || err != nil {
				return driver.Place{}, err
			}
		case err := <-over:
			return driver.Place{}, err
		}
	}
}

func (m *member) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	return m.now().Enter(ctx, c)
}

func (m *member) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	return m.now().Renew(ctx, cs)
}

func (m *member) Leave(ctx context.Context, l *driver.Release) error { return m.now().Leave(ctx, l) }

func servers(n int) []*server {
	var list []*server
	for i := range n {
		list = append(list, newServer(fmt.Sprint("run-", i)))
	}
	return list
}

func open(t testing.TB, list []*server, o *quorum.Options) (*quorum.Driver, []*member) {
	t.Helper()
	var (
		nodes   []quorum.Node
		members []*member
	)
	for i, s := range list {
		m := &member{s.store.Driver(), s}
		members = append(members, m)
		nodes = append(nodes, quorum.Node{Name: fmt.Sprint("s", i), Driver: m})
	}
	d, err := quorum.New(t.Context(), nodes, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return quorum.Inner(d), members
}

func claim(name, id string) *driver.Claim {
	return &driver.Claim{
		Name: name, ID: id, Client: "client-of-" + id, Weight: driver.All, Capacity: driver.All,
		TTL: 10 * time.Second, Wait: 5 * time.Second, Record: id,
	}
}

func holds(t testing.TB, d driver.Driver, c *driver.Claim) driver.Place {
	t.Helper()
	p, err := d.Enter(t.Context(), c)
	if err != nil || !p.Holds {
		t.Fatalf("enter %s = %+v, %v; want it to hold", c.ID, p, err)
	}
	c.Ticket = p.Ticket
	return p
}

func leaves(t testing.TB, d driver.Driver, c *driver.Claim) {
	t.Helper()
	if err := d.Leave(t.Context(), &driver.Release{Claim: c}); err != nil {
		t.Fatalf("leave %s = %v; want nil", c.ID, err)
	}
}

// says fails unless an error contains these words.
func says(t testing.TB, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("error = %v; want one that says %q", err, words)
	}
}

func TestContractOfMembers(t *testing.T) {
	t.Parallel()
	list := servers(5)
	drivertest.Run(t, drivertest.Store{
		Open: func(t testing.TB) driver.Driver {
			var nodes []quorum.Node
			for i, s := range list {
				nodes = append(nodes, quorum.Node{Name: fmt.Sprint("s", i), Driver: &member{s.store.Driver(), s}})
			}
			d, err := quorum.New(t.Context(), nodes, &quorum.Options{MaxTTL: driver.MaxTTL})
			if err != nil {
				t.Fatal(err)
			}
			return d // with the methods for observers
		},
		Halfway: true,
	})
}
