package shard

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// memberName is the name under which each client notes, in every store, which lists it has. Listings do not show it.
const memberName = "stile-shard/lists"

const (
	memberTTL    = 30 * time.Second // how long a dead client stays a member
	memberAgain  = 10 * time.Second
	memberWithin = time.Second // bounds the first claim's wait for silent stores
)

var errApart = errors.New("a client is at work, or was until half a minute ago, that has neither this list of stores nor the previous one: " +
	"give it both, and let it be the last that has the old one alone")

// A membership makes clients without a common list refuse to work, if they share a store that can show them each other: a
// store with shared claims and listings. It is a safety net for people who change the lists. It does not make a move safe,
// since a store that is down shows nothing.
type membership struct {
	ctx    context.Context // ends with Close
	record memberRecord
	pages  []*page

	once  sync.Once
	first chan struct{} // closed when all stores were asked once, or will not be

	mu  sync.Mutex // guards the fields below
	err error
}

// A memberRecord is a client's entry.
type memberRecord struct {
	Reason string   `json:"reason"`
	Lists  []string `json:"lists"`
}

// A page is the members in one store.
type page struct {
	*store
	lister driver.Lister
	claim  driver.Claim
}

func newMembership(s *shards) *membership {
	r := &membership{ctx: s.life.Context(), first: make(chan struct{}), record: memberRecord{Reason: "names are spread over stores"}}
	for _, l := range s.lists {
		r.record.Lists = append(r.record.Lists, l.identity())
	}
	text, err := json.Marshal(r.record)
	if err != nil {
		return r
	}
	for _, st := range s.stores {
		t := st.Traits()
		lister, ok := st.Driver.(driver.Lister)
		if !ok || !t.Shared || t.MinTTL > memberTTL || t.MaxTTL < memberTTL {
			continue
		}
		r.pages = append(r.pages, &page{st, lister, driver.Claim{
			Name: memberName, Client: rand.Text(), Weight: 1, Capacity: driver.All,
			TTL: memberTTL, Wait: memberTTL, Record: string(text),
		}})
	}
	return r
}

// identity returns a text that two lists share only if they put every name in the same store.
func (l list) identity() string {
	var members []string
	for _, m := range l {
		members = append(members, fmt.Sprintf("%s*%d", m.name, len(m.seeds)))
	}
	slices.Sort(members)
	return fmt.Sprintf("%016x", digest(strings.Join(members, " ")))
}

// check returns why this client must not work, or nil. The first call makes it a member.
func (r *membership) check(ctx context.Context, spawn func(func()) bool) error {
	r.once.Do(func() {
		if len(r.pages) == 0 || !spawn(r.renewMembership) {
			close(r.first)
		}
	})
	select {
	case <-r.first:
	case <-ctx.Done():
		return driver.Ended(ctx, false)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// renewMembership keeps the client among the members until it is closed.
func (r *membership) renewMembership() {
	r.refresh()
	close(r.first)
	again := time.NewTicker(memberAgain)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			r.refresh()
		case <-r.ctx.Done():
			r.leave()
			return
		}
	}
}

// refresh notes the client in every store, and reads the earlier members. A client that must not work is no member, so that
// it excludes nobody; it checks again later.
func (r *membership) refresh() {
	ctx, cancel := context.WithTimeout(r.ctx, memberWithin)
	defer cancel()
	apart := make([]bool, len(r.pages))
	var asked sync.WaitGroup
	for i, p := range r.pages {
		asked.Go(func() { apart[i] = p.joins(ctx, &r.record) })
	}
	asked.Wait()
	var err error
	if slices.Contains(apart, true) {
		err = driver.Refused(errApart)
		r.leave()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// joins reports whether an earlier client has no list in common with this one. If two come at once, the later one reads
// after both have entered. A client with such a client before it does not enter at all, so that nobody takes it for a
// working one.
func (p *page) joins(ctx context.Context, own *memberRecord) bool {
	if p.claim.ID == "" {
		if p.before(ctx, own, math.MaxInt64) {
			return true
		}
		p.claim.ID = rand.Text()
	}
	place, err := p.Enter(ctx, &p.claim)
	if errors.Is(err, driver.ErrGone) {
		p.claim.ID, p.claim.Ticket = rand.Text(), 0
		place, err = p.Enter(ctx, &p.claim)
	}
	if err != nil {
		return false
	}
	p.claim.Ticket = place.Ticket
	return p.before(ctx, own, place.Ticket)
}

// before reports whether a client with a lower ticket has no list in common with this one. A store that does not answer
// proves nothing.
func (p *page) before(ctx context.Context, own *memberRecord, ticket int64) bool {
	all, err := p.lister.List(ctx, &driver.Query{Name: memberName})
	if err != nil {
		return false
	}
	for _, l := range all {
		for _, st := range l.Claims {
			var other memberRecord
			if st.Ticket < ticket && json.Unmarshal([]byte(st.Record), &other) == nil && !own.meets(&other) {
				return true
			}
		}
	}
	return false
}

func (r *memberRecord) meets(other *memberRecord) bool {
	return len(other.Lists) == 0 || slices.ContainsFunc(r.Lists, func(l string) bool { return slices.Contains(other.Lists, l) })
}

// leave removes the client from the members, so that others need not wait for its lease.
func (r *membership) leave() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), memberWithin)
	defer cancel()
	var asked sync.WaitGroup
	for _, p := range r.pages {
		if p.claim.ID != "" {
			asked.Go(func() {
				_ = p.Leave(ctx, &driver.Release{Claim: &p.claim}) // or it runs out
				p.claim.ID, p.claim.Ticket = "", 0
			})
		}
	}
	asked.Wait()
}
