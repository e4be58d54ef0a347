package api

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stilelock/stile/driver"
)

// A Claim is a [driver.Claim].
type Claim struct {
	Name     string        `json:"name"`
	ID       string        `json:"id"`
	Client   string        `json:"client,omitempty"`
	Weight   int64         `json:"weight"`
	Capacity int64         `json:"capacity"`
	TTL      time.Duration `json:"ttl_ns"`
	Wait     time.Duration `json:"wait_ns"`
	Delay    time.Duration `json:"delay_ns,omitempty"`
	Ticket   int64         `json:"ticket,string"`
	Owner    string        `json:"owner,omitempty"`
	Try      bool          `json:"try,omitempty"`
	Reclaim  bool          `json:"reclaim,omitempty"`
	Record   []byte        `json:"record,omitempty"`
	Amend    *Amendment    `json:"amend,omitempty"`
}

// An Amendment is a [driver.Amendment].
type Amendment struct {
	Weight int64  `json:"weight,omitempty"`
	Record []byte `json:"record,omitempty"`
}

// NewClaim returns the claim for a request. It refuses text that is not valid UTF-8, since JSON would change it.
func NewClaim(c *driver.Claim) (*Claim, error) {
	for _, text := range []string{c.Name, c.ID, c.Client, c.Owner} {
		if !utf8.ValidString(text) {
			return nil, driver.Refused(errors.New("the name, id, client or owner of the claim is not valid UTF-8"))
		}
	}
	w := &Claim{
		Name: c.Name, ID: c.ID, Client: c.Client, Weight: c.Weight, Capacity: c.Capacity, TTL: c.TTL, Wait: c.Wait, Delay: c.Delay,
		Ticket: c.Ticket, Owner: c.Owner, Try: c.Try, Reclaim: c.Reclaim, Record: []byte(c.Record),
	}
	if c.Amend != nil {
		w.Amend = &Amendment{c.Amend.Weight, []byte(c.Amend.Record)}
	}
	return w, nil
}

// Driver returns the claim for a driver.
func (c *Claim) Driver() *driver.Claim {
	d := &driver.Claim{
		Name: c.Name, ID: c.ID, Client: c.Client, Weight: c.Weight, Capacity: c.Capacity, TTL: c.TTL, Wait: c.Wait, Delay: c.Delay,
		Ticket: c.Ticket, Owner: c.Owner, Try: c.Try, Reclaim: c.Reclaim, Record: string(c.Record),
	}
	if c.Amend != nil {
		d.Amend = &driver.Amendment{Weight: c.Amend.Weight, Record: string(c.Amend.Record)}
	}
	return d
}

// Check returns an error if the claim violates the contract, since drivers trust their callers. A claim that leaves or
// awaits needs only a name and an id.
func (c *Claim) Check() error {
	if err := driver.CheckName(c.Name); err != nil {
		return err
	}
	if c.ID == "" || strings.ContainsFunc(c.ID, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the claim needs an id of letters and digits")
	}
	for _, text := range []string{c.ID, c.Client, c.Owner} {
		if len(text) > MaxText {
			return fmt.Errorf("an id, a client or an owner has more than %d bytes", MaxText)
		}
	}
	for _, d := range []time.Duration{c.TTL, c.Wait, c.Delay} {
		if d < 0 || d > driver.MaxTTL {
			return fmt.Errorf("ttl_ns, wait_ns and delay_ns are from 0 to %v", driver.MaxTTL)
		}
	}
	switch {
	case len(c.Record) > driver.MaxRecord || c.Amend != nil && len(c.Amend.Record) > driver.MaxRecord:
		return fmt.Errorf("a record has more than %d bytes", driver.MaxRecord)
	case c.Ticket < 0 || c.Ticket > MaxTicket:
		return fmt.Errorf("a ticket is from 0 to %d", MaxTicket)
	}
	return nil
}

// CheckLeased is Check for a claim that enters or is renewed: it also needs a weight, a capacity and leases.
func (c *Claim) CheckLeased() error {
	if err := c.Check(); err != nil {
		return err
	}
	switch {
	case c.Capacity < 1 || c.Capacity > driver.All || c.Weight < 1 || c.Weight > c.Capacity:
		return fmt.Errorf("weight is from 1 to capacity, and capacity from 1 to %d", driver.All)
	case c.TTL == 0 || c.Wait == 0:
		return errors.New("ttl_ns and wait_ns are at least 1")
	}
	return nil
}

// A Place is a [driver.Place].
type Place struct {
	Ticket  int64         `json:"ticket,string"`
	Holds   bool          `json:"holds"`
	TTL     time.Duration `json:"ttl_ns"`
	Retry   time.Duration `json:"retry_ns,omitempty"`
	Ahead   int           `json:"ahead"`
	Blocker *ClaimInfo    `json:"blocker,omitempty"`
}

// NewPlace returns the place of an answer.
func NewPlace(p driver.Place) *Place {
	w := &Place{Ticket: p.Ticket, Holds: p.Holds, TTL: p.TTL, Retry: p.Retry, Ahead: p.Ahead}
	if p.Blocker != (driver.ClaimInfo{}) {
		w.Blocker = NewClaimInfo(p.Blocker)
	}
	return w
}

// Driver returns the place as a driver does.
func (p *Place) Driver() driver.Place {
	d := driver.Place{Ticket: p.Ticket, Holds: p.Holds, TTL: p.TTL, Retry: p.Retry, Ahead: p.Ahead}
	if p.Blocker != nil {
		d.Blocker = p.Blocker.Driver()
	}
	return d
}

// A ClaimInfo is a [driver.ClaimInfo].
type ClaimInfo struct {
	Ticket    int64         `json:"ticket,string"`
	Weight    int64         `json:"weight"`
	Holds     bool          `json:"holds"`
	Left      bool          `json:"left,omitempty"`
	Since     time.Duration `json:"since_ns"`
	Remaining time.Duration `json:"remaining_ns"`
	Record    []byte        `json:"record,omitempty"`
	Principal string        `json:"principal,omitempty"`
}

// NewClaimInfo returns the claim of an answer.
func NewClaimInfo(c driver.ClaimInfo) *ClaimInfo {
	return &ClaimInfo{c.Ticket, c.Weight, c.Holds, c.Left, c.Since, c.Remaining, []byte(c.Record), c.Principal}
}

// Driver returns the claim as a driver does.
func (c *ClaimInfo) Driver() driver.ClaimInfo {
	return driver.ClaimInfo{
		Ticket: c.Ticket, Weight: c.Weight, Holds: c.Holds, Left: c.Left, Since: c.Since, Remaining: c.Remaining,
		Record: string(c.Record), Principal: c.Principal,
	}
}

// A Renewal is a [driver.Renewal].
type Renewal struct {
	TTL   time.Duration `json:"ttl_ns"`
	Asks  int64         `json:"asks,omitempty"`
	Error *Error        `json:"error,omitempty"`
}

// NewRenewal returns the renewal of an answer.
func NewRenewal(r driver.Renewal) Renewal {
	return Renewal{TTL: r.TTL, Asks: r.Asks, Error: NewError(r.Err)}
}

// Driver returns the renewal as a driver does.
func (r *Renewal) Driver() driver.Renewal {
	return driver.Renewal{TTL: r.TTL, Asks: r.Asks, Err: r.Error.Err()}
}

// A Listing is a [driver.Listing].
type Listing struct {
	Name     string       `json:"name"`
	Capacity int64        `json:"capacity"`
	Claims   []*ClaimInfo `json:"claims"`
}

// NewListing returns the queue of an answer.
func NewListing(l driver.Listing) *Listing {
	w := &Listing{Name: l.Name, Capacity: l.Capacity}
	for _, c := range l.Claims {
		w.Claims = append(w.Claims, NewClaimInfo(c))
	}
	return w
}

// Driver returns the queue as a driver does.
func (l *Listing) Driver() driver.Listing {
	d := driver.Listing{Name: l.Name, Capacity: l.Capacity}
	for _, c := range l.Claims {
		if c != nil {
			d.Claims = append(d.Claims, c.Driver())
		}
	}
	return d
}
