package consul

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/internal/work"
)

// A kind is the part of a session that decides which claims it can serve.
type kind struct{ ttl, delay time.Duration }

// A session is the lease of one claim at a time. The driver's mu guards its fields, except the id and the kind, which never
// change.
type session struct {
	id string
	kind
	sent     time.Duration // when the request was sent from which its lease counts
	spoiled  bool          // it serves no other claim after this one; set by becomeLocked
	borrowed bool          // another client made it, and may use it for another claim after this claim has left
	over     bool          // the store said that the session does not exist
	expiry   *time.Timer   // ends it if no claim uses it
}

// sessions makes, renews and ends sessions, and keeps unused ones for later claims.
type sessions struct {
	agent *agent
	life  *work.Life
	floor time.Duration // the shortest session that the servers allow

	mu   *sync.Mutex // guards the fields below; it is the driver's, since becomeLocked changes a claim and its session together
	idle map[kind][]*session
}

// minRemaining says how much of its lease an unused session needs to serve another claim without a renewal: more than
// 1/minRemaining.
const minRemaining = 2

// remainingLocked returns how much of the session's lease is surely left.
func (s *session) remainingLocked() time.Duration { return s.ttl - (boottime.Now() - s.sent) }

// kindOf returns the kind of session that a claim needs.
func (ss *sessions) kindOf(c *driver.Claim) kind {
	ttl := max(c.TTL, ss.floor).Round(time.Millisecond)
	if ttl < c.TTL {
		ttl += time.Millisecond
	}
	return kind{ttl, c.Delay}
}

// take returns a session that no claim uses: an unused one, or a new one.
func (ss *sessions) take(ctx context.Context, k kind) (*session, error) {
	for {
		s, fresh := ss.unused(k)
		if s == nil {
			return ss.create(ctx, k)
		}
		if fresh {
			return s, nil
		}
		err := ss.prolong(ctx, s)
		if err == nil {
			return s, nil
		}
		if !errors.Is(err, driver.ErrSession) {
			return nil, driver.NotYet(err)
		}
	}
}

// unused returns an unused session, and whether it can serve without a renewal.
func (ss *sessions) unused(k kind) (s *session, fresh bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	list := ss.idle[k]
	if len(list) == 0 {
		return nil, false
	}
	s = list[len(list)-1]
	ss.idle[k] = list[:len(list)-1]
	s.expiry.Stop()
	return s, s.remainingLocked() > k.ttl/minRemaining
}

// create makes a session that ends only by its TTL: neither the agent's health nor a check of its node ends it.
//
// With a lock-delay, the session's keys stay in the store without a session when it ends. Consul checks for a lock-delay
// before it puts a request into its log, and the end of the session may be on its way into the log then. If the lock's key
// were deleted, a request at this moment would get past the lock-delay. So the keys stay: a claim takes the lock's key by
// the index that the key has after the session's end, and by then the server knows the lock-delay.
func (ss *sessions) create(ctx context.Context, k kind) (*session, error) {
	sent := boottime.Now()
	behavior := "delete"
	if k.delay > 0 {
		behavior = "release"
	}
	r, err := ss.agent.call(ctx, request{method: http.MethodPut, path: "session/create", body: map[string]any{
		"Name": "stile", "TTL": k.ttl.String(), "LockDelay": k.delay.String(), "Behavior": behavior,
		"Checks": []string{}, "NodeChecks": []string{},
	}})
	if err != nil {
		return nil, driver.NotYet(err) // no request about the claim was sent; a session without keys is in nobody's way
	}
	var made struct{ ID string }
	if err := r.decode(&made); err != nil {
		return nil, driver.NotYet(err)
	}
	return &session{id: made.ID, kind: k, sent: sent}, nil
}

// prolong renews a session. The error is [driver.ErrSession] if the session is over.
func (ss *sessions) prolong(ctx context.Context, s *session) error {
	sent := boottime.Now()
	is, err := ss.renewal(ctx, s.id)
	if err != nil {
		return err
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if is == nil {
		s.over = true
		return driver.ErrSession
	}
	s.sent = max(s.sent, sent)
	return nil
}

// freshen is prolong if more than a quarter of the session's lease has passed.
func (ss *sessions) freshen(ctx context.Context, s *session) error {
	ss.mu.Lock()
	stale := s.remainingLocked() < s.ttl*3/4
	ss.mu.Unlock()
	if !stale {
		return nil
	}
	return ss.prolong(ctx, s)
}

// An info is a session as Consul describes it.
type info struct {
	TTL       string
	LockDelay time.Duration
}

// renewal sends the request that renews a session. It returns the session's description, or nil if there is no such session.
func (ss *sessions) renewal(ctx context.Context, id string) (*info, error) {
	r, err := ss.agent.call(ctx, request{method: http.MethodPut, path: "session/renew/" + escape(id), repeatable: true})
	if err != nil || r.status == http.StatusNotFound {
		return nil, err
	}
	var list []info
	if err := r.decode(&list); err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// joinSession renews a session that another client made, and returns it, or nil if it is over.
func (ss *sessions) joinSession(ctx context.Context, id string) (*session, error) {
	sent := boottime.Now()
	is, err := ss.renewal(ctx, id)
	if err != nil || is == nil {
		return nil, err
	}
	ttl, err := time.ParseDuration(is.TTL)
	if err != nil {
		ttl = ss.floor // it has no TTL, and never ends by itself
	}
	return &session{id: id, kind: kind{ttl, is.LockDelay}, sent: sent, spoiled: true, borrowed: true}, nil
}

// end ends a session unless another client made it. Requests that are still on their way with this session fail then.
func (ss *sessions) end(ctx context.Context, s *session) error {
	if s.borrowed {
		return nil
	}
	_, err := ss.agent.call(ctx, request{method: http.MethodPut, path: "session/destroy/" + escape(s.id)})
	if err == nil {
		ss.mu.Lock()
		defer ss.mu.Unlock()
		s.over = true
	}
	return err
}

// recycleLocked keeps a session for the next claim, since its claim has left. A spoiled session is ended instead, so that
// requests that are still on their way with it fail. So is another client's session, since that client may be gone.
func (ss *sessions) recycleLocked(s *session) {
	if ss.agent.ctx.Err() != nil || s.over {
		return
	}
	left := s.remainingLocked()
	if s.spoiled || left <= 0 {
		ss.life.Go(func() { ss.endAll([]*session{s}) })
		return
	}
	ss.idle[s.kind] = append(ss.idle[s.kind], s)
	s.expiry = time.AfterFunc(left, func() { ss.retire(s) })
}

// retire ends a session that no claim has used for its whole TTL.
func (ss *sessions) retire(s *session) {
	ss.mu.Lock()
	i := slices.Index(ss.idle[s.kind], s)
	if i >= 0 {
		ss.idle[s.kind] = slices.Delete(ss.idle[s.kind], i, i+1)
	}
	if len(ss.idle[s.kind]) == 0 {
		delete(ss.idle, s.kind)
	}
	ss.mu.Unlock()
	if i >= 0 {
		ss.life.Go(func() { ss.endAll([]*session{s}) })
	}
}

// endAfter ends a session after a while, unless the driver is closed before.
func (ss *sessions) endAfter(s *session, length time.Duration) {
	ss.life.Go(func() {
		timer := time.NewTimer(length)
		defer timer.Stop()
		select {
		case <-timer.C:
			ss.endAll([]*session{s})
		case <-ss.agent.ctx.Done():
		}
	})
}

// giveBack is recycleLocked for a session that no claim has used after all, or for nil.
func (ss *sessions) giveBack(s *session) {
	if s == nil {
		return
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.recycleLocked(s)
}

// drainLocked removes and returns all unused sessions.
func (ss *sessions) drainLocked() (unused []*session) {
	for _, list := range ss.idle {
		unused = append(unused, list...)
	}
	clear(ss.idle)
	for _, s := range unused {
		s.expiry.Stop()
	}
	return unused
}

// endWithin bounds the requests that end sessions. Without them the sessions end by their TTL.
const endWithin = time.Second

// endAll ends sessions, also when the driver is closed. A failure does not matter: their TTL ends them.
func (ss *sessions) endAll(list []*session) {
	if len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	for _, s := range list {
		if _, err := ss.agent.send(ctx, request{method: http.MethodPut, path: "session/destroy/" + escape(s.id)}); err != nil {
			return
		}
	}
}
