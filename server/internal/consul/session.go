package consul

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
)

// sessionPrefix begins the name of each session.
const sessionPrefix = "consul-session/"

// IsSession reports whether a name is that of a session, and not of a lock.
func IsSession(name string) bool { return strings.HasPrefix(name, sessionPrefix) }

// Bounds of sessions. Consul has the same, except for the shortest TTL, which is 10 s there.
const (
	minTTL       = time.Second
	defaultDelay = 15 * time.Second
	maxDelay     = time.Minute
	maxName      = 100 // bytes of a session's name that are kept

	// maxKeys is the most keys of a session, all of which one request renews. Consul has no such bound.
	maxKeys = 100
)

// The behaviors of a session, which say what happens to its keys when it ends.
const (
	behaviorRelease = "release"
	behaviorDelete  = "delete"

	// behaviorEnded marks a session that ends: its keys leave, and it takes no more. The word is so short that it fits into every
	// record.
	behaviorEnded = "ended"
)

// An entry is a session as Consul shows it.
type entry struct {
	ID, Name, Node           string
	LockDelay                time.Duration
	Behavior, TTL            string
	NodeChecks               []string
	ServiceChecks            []string
	CreateIndex, ModifyIndex uint64
}

func (s *session) entry() *entry {
	ticket := uint64(s.ticket)
	return &entry{
		s.Session, s.holder.Owner, node, s.LockDelay, s.Behavior, s.TTL, []string{}, []string{}, ticket, ticket,
	}
}

func (f *Front) session(ctx context.Context, q *Request, verb, id string) (*Answer, error) {
	switch verb {
	case "create":
		return f.create(ctx, q, id)
	case "destroy", "renew":
		if err := q.only(http.MethodPut); err != nil {
			return nil, err
		}
		if verb == "renew" {
			return f.renew(ctx, q, id)
		}
		return f.destroy(ctx, q, id)
	case "info":
		return f.info(ctx, q, id)
	case "list", "node":
		return f.sessions(ctx, q, verb, id)
	}
	return nil, refuse(http.StatusNotFound, "the lock service does not have Consul's %s %.100s", q.Method, q.Path)
}

// A wish is the body of a request for a session.
type wish struct {
	Name, Node    string
	LockDelay     any
	Behavior, TTL string
	Checks        []string
	NodeChecks    []string
	ServiceChecks []any
}

// wish returns the session that a request wishes for.
func (q *Request) wish() (*session, error) {
	var w wish
	if len(bytes.TrimSpace(q.Body)) > 0 {
		d := json.NewDecoder(bytes.NewReader(q.Body))
		d.DisallowUnknownFields()
		if err := d.Decode(&w); err != nil {
			return nil, refuse(http.StatusBadRequest, "the session cannot be read: %v", err)
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return nil, refuse(http.StatusBadRequest, "something follows the session")
		}
	}
	foreign := func(check string) bool { return check != "serfHealth" } // Consul's default, which a node always passes here
	switch {
	case w.Node != "" && w.Node != node:
		return nil, refuse(http.StatusBadRequest, "the lock service has only the node %s", node)
	case slices.ContainsFunc(w.Checks, foreign), slices.ContainsFunc(w.NodeChecks, foreign), len(w.ServiceChecks) > 0:
		return nil, refuse(http.StatusBadRequest, "the lock service has no health checks: a session ends by its TTL")
	case w.Behavior != "" && w.Behavior != behaviorRelease && w.Behavior != behaviorDelete:
		return nil, refuse(http.StatusBadRequest, "the behavior of a session is %s or %s", behaviorRelease, behaviorDelete)
	}
	ttl, err := time.ParseDuration(w.TTL)
	if err != nil || ttl < minTTL || ttl > driver.MaxTTL {
		return nil, refuse(http.StatusBadRequest, "a session needs a TTL from %v to %v, such as 15s: the lock service does not know "+
			"whether a node lives", minTTL, driver.MaxTTL)
	}
	delay, err := lockDelay(w.LockDelay)
	if err != nil {
		return nil, err
	}
	s := &session{
		Session: newID(), Principal: q.Principal(), LockDelay: delay, Behavior: w.Behavior, TTL: w.TTL, holder: q.Sender,
	}
	if s.Behavior == "" {
		s.Behavior = behaviorRelease
	}
	s.holder.Owner = cut(w.Name, maxName)
	return s, nil
}

// lockDelay reads a lock-delay, as Consul does: a duration, or a number of seconds if it is below 1,000, else of nanoseconds.
func lockDelay(of any) (d time.Duration, err error) {
	switch v := of.(type) {
	case nil:
		return defaultDelay, nil
	case string:
		d, err = time.ParseDuration(v)
	case float64:
		if d = time.Duration(v); v < 1000 {
			d = time.Duration(v * float64(time.Second))
		}
	default:
		err = errors.New("no duration")
	}
	if err != nil || d < 0 || d > maxDelay {
		return 0, refuse(http.StatusBadRequest, "the LockDelay of a session is from 0s to %v", maxDelay)
	}
	return d, nil
}

// errNoSessions refuses a caller that has no use for sessions.
var errNoSessions = forbid("", "Permission denied: no right to lock any name")

func (f *Front) create(ctx context.Context, q *Request, id string) (*Answer, error) {
	if err := q.only(http.MethodPut); err != nil {
		return nil, err
	}
	if id != "" {
		return nil, refuse(http.StatusNotFound, "the lock service draws the id of a session itself")
	}
	if !q.Locks() {
		return nil, errNoSessions
	}
	s, err := q.wish()
	if err != nil {
		return nil, err
	}
	if most := f.lease(s).TTL; s.ttl() > most {
		return nil, refuse(http.StatusBadRequest, "a lease here lasts %v at most", most)
	}
	s.By = f.keys[0].name
	if s.record, err = s.encode(f.lease(s).TTL); err != nil {
		return nil, err
	}
	c, err := f.claim(s)
	if err != nil {
		return nil, err
	}
	p, err := f.d.Enter(ctx, c)
	if err == nil && !p.Holds {
		err = errors.New("somebody else has the name of the new session")
	}
	if err != nil {
		return nil, fmt.Errorf("the session was not made: %w", err)
	}
	return answer(0, map[string]string{"ID": s.Session})
}

// claim returns the claim of a session.
func (f *Front) claim(s *session) (*driver.Claim, error) {
	k, err := f.keyOf(s.By)
	if err != nil {
		return nil, err
	}
	c := f.lease(s)
	c.Name, c.ID, c.Ticket, c.Record = sessionPrefix+s.Session, k.id("session", s.Session), s.ticket, s.record
	return &c, nil
}

// find returns the session with an id; nil if there is none. A session of another principal is refused.
func (f *Front) find(ctx context.Context, who Caller, id string) (*session, error) {
	s, err := f.look(ctx, id)
	if err != nil {
		return nil, err
	}
	return s, s.mustBe(who)
}

// mustBe returns an error if the session is another principal's.
func (s *session) mustBe(who Caller) error {
	if s != nil && s.Principal != who.Principal() {
		return forbid("", "the session belongs to another principal")
	}
	return nil
}

// look returns the session with an id, whoever asks, unless it ends.
func (f *Front) look(ctx context.Context, id string) (*session, error) {
	s, err := f.remains(ctx, id)
	if s != nil && s.Behavior == behaviorEnded {
		return nil, nil
	}
	return s, err
}

// remains returns the session with an id, also while it ends.
func (f *Front) remains(ctx context.Context, id string) (*session, error) {
	if !isID(id) {
		return nil, nil
	}
	l, err := f.queue(ctx, sessionPrefix+id)
	if err != nil {
		return nil, err
	}
	for i := range l.Claims {
		if c := &l.Claims[i]; live(c) {
			if s := readSession(c); s != nil && s.Session == id {
				return s, nil
			}
		}
	}
	return nil, nil
}

// errNoSession is Consul's answer to a key for a session that is not there.
func errNoSession(id string) error {
	return refuse(http.StatusInternalServerError, "invalid session %.40q: it is not there, or it has ended", id)
}

// amendments is how often amend tries.
const amendments = 10

// amend changes the record of a session. The session of the caller is changed too.
func (f *Front) amend(ctx context.Context, s *session, change func(*session)) error {
	for range amendments {
		next := s.copied()
		change(next)
		next.Times++
		if n := len(next.Keys); n > maxKeys && n > len(s.Keys) {
			return refuse(http.StatusRequestEntityTooLarge, "a session holds %d keys at most: take further ones by another session", maxKeys)
		}
		c, err := f.claim(s)
		if err != nil {
			return err
		}
		text, err := next.encode(c.TTL)
		if err != nil {
			return err
		}
		c.Amend = &driver.Amendment{Record: text}
		err = f.one(ctx, c)
		switch _, other := errors.AsType[*driver.RecordError](err); {
		case err == nil:
			next.record = text
			*s = *next
			return nil
		case errors.Is(err, driver.ErrGone):
			return errNoSession(s.Session)
		case !other:
			return err
		}
		now, err := f.look(ctx, s.Session) // another request about the session has changed it
		switch {
		case err != nil:
			return err
		case now == nil:
			return errNoSession(s.Session)
		}
		*s = *now
	}
	return errors.New("the session is changed by too many requests at once")
}

// one renews one claim.
func (f *Front) one(ctx context.Context, c *driver.Claim) error {
	end, err := f.begin(ctx, c)
	if err != nil {
		return err
	}
	defer end()
	return f.d.Renew(ctx, []*driver.Claim{c})[0].Err
}

// leave takes a claim out. It may be gone already.
func (f *Front) leave(ctx context.Context, c *driver.Claim, keep time.Duration) error {
	end, err := f.begin(ctx, c)
	if err != nil {
		return err
	}
	defer end()
	if err := f.d.Leave(ctx, &driver.Release{Claim: c, Keep: keep}); err != nil && !errors.Is(err, driver.ErrGone) {
		return err
	}
	return nil
}

// destroy ends a session. Its locks stay closed for its lock-delay: its client may not know yet.
//
// It marks the session first. A request that takes a key meanwhile looks at the session after its claim has entered: before the
// mark, destroy finds that claim; after it, the request takes the claim out again. If this replica ends in between, a repeated
// request goes on.
func (f *Front) destroy(ctx context.Context, q *Request, id string) (*Answer, error) {
	s, err := f.remains(ctx, id)
	if err == nil {
		err = s.mustBe(q)
	}
	if err != nil {
		return nil, err
	}
	if s == nil {
		return answer(0, true)
	}
	if s.Behavior != behaviorEnded {
		if err := f.amend(ctx, s, func(s *session) { s.Behavior = behaviorEnded }); err != nil {
			return nil, err
		}
	}
	c, err := f.claim(s)
	if err != nil {
		return nil, err
	}
	keys, err := f.claims(ctx, s, maps.Keys(s.Keys))
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if err := f.leave(ctx, k, k.Delay); err != nil {
			return nil, err // the session stays, and the client may ask again
		}
	}
	if err := f.leave(ctx, c, 0); err != nil {
		return nil, err
	}
	return answer(0, true)
}

func (f *Front) info(ctx context.Context, q *Request, id string) (*Answer, error) {
	if err := q.only(http.MethodGet, "index", "wait"); err != nil {
		return nil, err
	}
	return f.block(ctx, q, sessionPrefix+id, false, func(who Caller) (*Answer, error) {
		s, err := f.look(ctx, id)
		if err != nil {
			return nil, err
		}
		var all []*entry
		if s != nil && s.Principal == who.Principal() {
			all = append(all, s.entry())
		}
		return entries(all)
	})
}

// sessions answers with the sessions of the caller.
func (f *Front) sessions(ctx context.Context, q *Request, verb, id string) (*Answer, error) {
	if err := q.only(http.MethodGet, "index", "wait"); err != nil {
		return nil, err
	}
	return f.block(ctx, q, "", true, func(who Caller) (*Answer, error) {
		if !who.Locks() {
			return nil, errNoSessions
		}
		return f.list(ctx, sessionPrefix, func(queues []driver.Listing) (*Answer, error) {
			var all []*entry
			for i := range queues {
				for j := range queues[i].Claims {
					c := &queues[i].Claims[j]
					s := readSession(c)
					if live(c) && s != nil && s.Behavior != behaviorEnded && s.Principal == who.Principal() && (verb == "list" || strings.EqualFold(id, node)) {
						all = append(all, s.entry())
					}
				}
			}
			return entries(all)
		})
	})
}

// entries answers with sessions.
func entries(all []*entry) (*Answer, error) {
	if len(all) == 0 {
		return answer(absent, []*entry{})
	}
	a, err := answer(0, all)
	if err == nil {
		a.Index = indexOf(a.Text)
	}
	return a, err
}
