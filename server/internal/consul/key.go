package consul

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"strings"

	"github.com/stilelock/stile/driver"
)

// key answers a request about a key.
func (f *Front) key(ctx context.Context, q *Request, key string) (*Answer, error) {
	if q.Method == http.MethodGet && q.Query.Has("recurse") {
		return f.recurse(ctx, q, key)
	}
	name, _ := nameOf(key)
	if err := driver.CheckName(name); err != nil {
		return nil, refuse(http.StatusBadRequest, "the key %.300q is the name of no lock: %v", key, err)
	}
	if IsSession(name) {
		return nil, refuse(http.StatusBadRequest, "the keys %s… are the service's own", sessionPrefix)
	}
	switch q.Method {
	case http.MethodGet:
		return f.get(ctx, q, key)
	case http.MethodPut:
		return f.put(ctx, q, key)
	case http.MethodDelete:
		return f.remove(ctx, q, key)
	}
	return nil, refuse(http.StatusMethodNotAllowed, "a key takes GET, PUT and DELETE, and not %s", q.Method)
}

func (f *Front) put(ctx context.Context, q *Request, key string) (*Answer, error) {
	if err := q.only(http.MethodPut, "acquire", "release", "cas", "flags"); err != nil {
		return nil, err
	}
	verbs := 0
	for _, verb := range []string{"acquire", "release", "cas"} {
		if q.Query.Has(verb) {
			verbs++
		}
	}
	if verbs != 1 {
		return nil, refuse(http.StatusBadRequest, "a key is here only while a session holds it, so a PUT needs one of the parameters "+
			"acquire, release and cas")
	}
	flags, err := q.number("flags")
	if err != nil {
		return nil, err
	}
	var did bool
	switch {
	case q.Query.Has("acquire"):
		did, err = f.acquire(ctx, q, key, flags)
	case q.Query.Has("release"):
		did, err = f.release(ctx, q, key)
	default:
		did, err = f.swap(ctx, q, key)
	}
	if err != nil {
		return nil, err
	}
	return answer(0, did)
}

// number returns a parameter that is a number of 64 bits; 0 without it.
func (q *Request) number(name string) (uint64, error) {
	if !q.Query.Has(name) {
		return 0, nil
	}
	n, err := strconv.ParseUint(q.Query.Get(name), 10, 64)
	if err != nil {
		return 0, refuse(http.StatusBadRequest, "%s is a number from 0 to %d", name, uint64(1<<64-1))
	}
	return n, nil
}

// nothing answers a query for a key that is not there.
func nothing() *Answer { return &Answer{Status: http.StatusNotFound, Index: absent} }

// errUnknown refuses a caller without any right on a name.
func errUnknown(name string) error {
	return forbid(name, "Permission denied: no right to lock or read %.300q", name)
}

func (f *Front) get(ctx context.Context, q *Request, key string) (*Answer, error) {
	if err := q.only(http.MethodGet, "index", "wait"); err != nil {
		return nil, err
	}
	name, _ := nameOf(key)
	return f.block(ctx, q, name, false, func(who Caller) (*Answer, error) {
		if !who.Knows(name) {
			return nil, errUnknown(name)
		}
		l, err := f.queue(ctx, name)
		if err != nil {
			return nil, err
		}
		p := see(l, who).get(key)
		if p == nil {
			return nothing(), nil
		}
		return answer(p.ModifyIndex, []*pair{p})
	})
}

// recurse answers with all keys that begin with a prefix and that the caller may know. A query that waits watches the lock
// whose name is the prefix, as of a semaphore; it hears of other names a little later.
func (f *Front) recurse(ctx context.Context, q *Request, prefix string) (*Answer, error) {
	if err := q.only(http.MethodGet, "recurse", "index", "wait"); err != nil {
		return nil, err
	}
	watched := strings.TrimSuffix(prefix, "/")
	if driver.CheckName(watched) != nil {
		watched = "" // no name begins with the prefix, or every name
	}
	// The keys of a lock lie below its name.
	above := ""
	if i := strings.LastIndex(prefix, "/"); i > 0 && driver.CheckName(prefix[:i]) == nil {
		above = prefix[:i]
	}
	return f.block(ctx, q, watched, true, func(who Caller) (*Answer, error) {
		if !who.KnowsSome(prefix) {
			return nil, errUnknown(prefix)
		}
		return f.list(ctx, prefix, func(queues []driver.Listing) (*Answer, error) {
			if above != "" {
				l, err := f.queue(ctx, above)
				if err != nil {
					return nil, err
				}
				queues = append(queues, *l)
			}
			all := recursive(prefix, queues, who)
			if len(all) == 0 {
				return nothing(), nil
			}
			a, err := answer(0, all)
			if err == nil {
				a.Index = indexOf(a.Text)
			}
			return a, err
		})
	})
}

// held returns the claim of a hold on a name with a capacity.
func (f *Front) held(s *session, h *hold, name string, capacity int64) (*driver.Claim, error) {
	k, err := f.keyOf(h.By)
	if err != nil {
		return nil, err
	}
	c := f.lease(s)
	c.Name, c.ID = name, k.id("key", h.Session, name, h.Nonce)
	if capacity == driver.All {
		c.Delay = s.LockDelay
	} else { // a slot of a semaphore is free at once, as Consul's is
		c.Weight, c.Capacity = 1, capacity
	}
	return &c, nil
}

// of returns the first claim that a session holds in a queue, and its hold; nil if there is none.
func of(l *driver.Listing, session string) (*driver.ClaimInfo, *hold) {
	for c, h := range allOf(l, session) {
		return c, h
	}
	return nil, nil
}

// allOf returns the claims that a session holds in a queue, in its order. Requests for a slot that was asked for twice at once
// have one each, for a moment.
func allOf(l *driver.Listing, session string) iter.Seq2[*driver.ClaimInfo, *hold] {
	return func(yield func(*driver.ClaimInfo, *hold) bool) {
		for i := range l.Claims {
			c := &l.Claims[i]
			if h := readHold(c); h != nil && h.Session == session && live(c) && !yield(c, h) {
				return
			}
		}
	}
}

// acquisitions is how often acquire tries if others come and go meanwhile.
const acquisitions = 3

// acquire takes a key for a session, if nobody has it or waits for it. If the session has the key, it gets the new value.
func (f *Front) acquire(ctx context.Context, q *Request, key string, flags uint64) (bool, error) {
	name, dot := nameOf(key)
	if err := q.MayClaim(name, driver.All, driver.All); err != nil {
		return false, err
	}
	id := q.Query.Get("acquire")
	s, err := f.find(ctx, q, id)
	if err != nil {
		return false, err
	}
	if s == nil {
		return false, errNoSession(id)
	}
	for range acquisitions {
		l, err := f.queue(ctx, name)
		if err != nil {
			return false, err
		}
		c, h := of(l, id)
		switch {
		case h != nil && (h.Dot != dot || l.Capacity != driver.All): // by its other key, or as a semaphore
			return false, nil
		case h != nil:
			return f.keep(ctx, s, l, c, h, flags, q.Body)
		case len(l.Claims) > 0:
			return false, nil
		}
		h = &hold{Dot: dot, Flags: flags, Value: q.Body}
		if did, err := f.take(ctx, s, name, h, driver.All); did || err != nil {
			return did, err
		}
	}
	return false, nil
}

// take enters a claim for a session, if it holds at once. It is noted in the session's record before that, so that a renewal
// of the session finds it even if this replica ends now.
func (f *Front) take(ctx context.Context, s *session, name string, h *hold, capacity int64) (bool, error) {
	h.Session, h.By, h.Nonce, h.Principal = s.Session, s.By, newNonce(capacity), s.Principal
	c, err := f.held(s, h, name, capacity)
	if err != nil {
		return false, err
	}
	c.Try = true
	if c.Record, err = h.encode(s.holder, c.TTL); err != nil {
		return false, err
	}
	if err := f.amend(ctx, s, func(s *session) { s.Keys[name] = h.Nonce }); err != nil {
		return false, err
	}
	p, err := f.d.Enter(ctx, c)
	if _, other := errors.AsType[*driver.CapacityError](err); err != nil && !other {
		return false, err
	}
	if !p.Holds {
		return false, f.lost(ctx, s, name, h.Nonce)
	}
	c.Ticket = p.Ticket
	return f.settle(ctx, s, c, h)
}

// lost takes a claim that did not come to hold off the list of a session. If another request of the session has a claim, that
// one is listed in its place.
func (f *Front) lost(ctx context.Context, s *session, name, nonce string) error {
	l, err := f.queue(ctx, name)
	if err != nil {
		return err
	}
	if _, h := of(l, s.Session); h != nil {
		return f.note(ctx, s, name, h.Nonce)
	}
	return f.forget(ctx, s, name, nonce)
}

// settle looks at a session and its claims after one more holds. If the session has ended meanwhile, or has a slot already by
// another request, the claim leaves.
func (f *Front) settle(ctx context.Context, s *session, c *driver.Claim, h *hold) (bool, error) {
	now, err := f.look(ctx, s.Session)
	if err != nil {
		return false, err // the session may be there
	}
	if now == nil {
		if err := f.leave(ctx, c, c.Delay); err != nil {
			return false, err
		}
		return false, errNoSession(s.Session)
	}
	s = now
	if c.Capacity == driver.All {
		return true, f.note(ctx, s, c.Name, h.Nonce) // the session has no other claim beside it
	}
	l, err := f.queue(ctx, c.Name)
	if err != nil {
		return false, err
	}
	for other, first := range allOf(l, s.Session) {
		if other.Ticket >= c.Ticket {
			break
		}
		d, err := f.held(s, first, c.Name, c.Capacity)
		if err != nil {
			return false, err
		}
		d.Ticket = other.Ticket
		switch err := f.one(ctx, d); {
		case errors.Is(err, driver.ErrGone):
			continue // it left meanwhile, or only looks like the session's
		case err != nil:
			return false, err
		}
		if err := f.leave(ctx, c, 0); err != nil {
			return false, err
		}
		return true, f.note(ctx, s, c.Name, first.Nonce)
	}
	return true, f.note(ctx, s, c.Name, h.Nonce)
}

// note makes sure that a session lists a claim.
func (f *Front) note(ctx context.Context, s *session, name, nonce string) error {
	if s.Keys[name] == nonce {
		return nil
	}
	return f.amend(ctx, s, func(s *session) { s.Keys[name] = nonce })
}

// keep makes sure that the session lists a claim that it has, renews the claim, and gives it a new value. The session does
// not list it if an earlier request for the claim was late. The renewal fails if the claim only looks like the session's.
func (f *Front) keep(
	ctx context.Context, s *session, l *driver.Listing, c *driver.ClaimInfo, h *hold, flags uint64, value []byte,
) (bool, error) {
	if err := f.note(ctx, s, l.Name, h.Nonce); err != nil {
		return false, err
	}
	d, err := f.held(s, h, l.Name, l.Capacity)
	if err != nil {
		return false, err
	}
	d.Ticket, d.Record = c.Ticket, c.Record
	if h.Flags != flags || !bytes.Equal(h.Value, value) {
		next := *h
		next.Flags, next.Value, next.Times = flags, value, h.Times+1
		text, err := next.encode(s.holder, d.TTL)
		if err != nil {
			return false, err
		}
		d.Amend = &driver.Amendment{Record: text}
	}
	err = f.one(ctx, d)
	_, other := errors.AsType[*driver.RecordError](err) // another request of the session was faster
	if errors.Is(err, driver.ErrGone) || other {
		return false, nil
	}
	return err == nil, err
}

// forget removes a key from the list of a session.
func (f *Front) forget(ctx context.Context, s *session, name, nonce string) error {
	return f.amend(ctx, s, func(s *session) {
		if s.Keys[name] == nonce {
			delete(s.Keys, name)
		}
	})
}

// release gives up the key of a session.
func (f *Front) release(ctx context.Context, q *Request, key string) (bool, error) {
	name, dot := nameOf(key)
	if err := q.MayLeave(name); err != nil {
		return false, err
	}
	l, err := f.queue(ctx, name)
	if err != nil {
		return false, err
	}
	_, h := of(l, q.Query.Get("release"))
	if h == nil || h.Dot != dot || l.Capacity != driver.All {
		return false, nil
	}
	return true, f.drop(ctx, q, l, h)
}

// drop takes the claims of the session of a hold out of a queue.
func (f *Front) drop(ctx context.Context, who Caller, l *driver.Listing, h *hold) error {
	if h.Principal != who.Principal() {
		return forbid(l.Name, "the key belongs to a session of another principal")
	}
	s, err := f.look(ctx, h.Session)
	if err != nil {
		return err
	}
	for c, h := range allOf(l, h.Session) {
		d, err := f.held(cmp.Or(s, &session{TTL: minTTL.String()}), h, l.Name, l.Capacity) // its session may have ended before it
		if err != nil {
			return err
		}
		d.Ticket = c.Ticket
		if err := f.leave(ctx, d, 0); err != nil {
			return err
		}
		if s != nil {
			// The claim has left. If the list keeps it, renewals of the session find it gone, which costs nothing else.
			f.heed(f.forget(ctx, s, l.Name, h.Nonce))
		}
	}
	return nil
}

// remove deletes a key, which ends the claim of its session.
func (f *Front) remove(ctx context.Context, q *Request, key string) (*Answer, error) {
	if err := q.only(http.MethodDelete, "cas"); err != nil {
		return nil, err
	}
	name, dot := nameOf(key)
	if err := q.MayLeave(name); err != nil {
		return nil, err
	}
	index, err := q.number("cas")
	if err != nil {
		return nil, err
	}
	l, err := f.queue(ctx, name)
	if err != nil {
		return nil, err
	}
	v := see(l, q)
	p := v.get(key)
	switch {
	case p == nil:
		return answer(0, true)
	case q.Query.Has("cas") && p.ModifyIndex != index:
		return answer(0, false)
	case v.permits():
		return nil, refuse(http.StatusConflict, "the semaphore %.300q is in use", name)
	}
	_, h := of(l, p.Session)
	if h == nil || h.Dot != dot {
		return nil, refuse(http.StatusConflict, "%.300q is held, but not by a session of yours under this key; stile break removes any "+
			"holder", name)
	}
	if err := f.drop(ctx, q, l, h); err != nil {
		return nil, err
	}
	return answer(0, true)
}
