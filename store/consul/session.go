package consul

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/internal/work"
)

// A kind is what sessions have in common that can serve the same claims.
type kind struct{ ttl, delay time.Duration }

// A session is the lease of one claim at a time. Its fields are guarded by the driver's mu, but for the id and the kind.
type session struct {
	id string
	kind
	sent     time.Duration // when the request was sent that its lease counts from
	spoiled  bool          // it serves no other claim than the one that it has; set by become
	borrowed bool          // another client made it, and may use it for another claim once this one has left
	over     bool          // the store said that there is no such session
	expiry   *time.Timer   // gives it back when no claim uses it
}

// sessions makes, renews and ends sessions, and keeps those that no claim uses.
type sessions struct {
	agent *agent
	life  *work.Life
	floor time.Duration // the shortest session that the servers give

	mu   *sync.Mutex // guards what follows; the driver's, since become moves a claim and its session at once
	idle map[kind][]*session
}

// minLeft is the part of its lease that a session must have left to serve another claim as it is.
const minLeft = 2

// left is what is left of the session's lease for sure. The caller holds mu.
func (s *session) left() time.Duration { return s.ttl - (boottime.Now() - s.sent) }

// kindOf is what the session of a claim must be like.
func (ss *sessions) kindOf(c *driver.Claim) kind {
	ttl := max(c.TTL, ss.floor).Round(time.Millisecond)
	if ttl < c.TTL {
		ttl += time.Millisecond
	}
	return kind{ttl, c.Delay}
}

// take returns a session that no claim uses: one that a claim left, or a new one.
func (ss *sessions) take(ctx context.Context, k kind) (*session, error) {
	for {
		s, fresh := ss.unused(k)
		if s == nil {
			return ss.create(ctx, k)
		}
		if fresh {
			return s, nil
		}
		over, err := ss.prolong(ctx, s)
		if err != nil {
			return nil, driver.NotYet(err)
		}
		if !over {
			return s, nil
		}
	}
}

// unused returns a session that waits to be used, and whether it can be as it is.
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
	return s, s.left() > k.ttl/minLeft
}

// create makes a session that its time alone ends: neither the agent's health nor a check of its node does.
//
// With a lock-delay, its keys stay in the store without a session when it ends. A server looks for a lock-delay before it
// puts a request into its log, and the end of a session may be on its way there: where nothing is left of the lock's key, a
// request that comes in that moment slips through. So the keys stay: a claim takes the lock's key by the index that it has
// after the session's end, and by then the server knows of the lock-delay.
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
		return nil, driver.NotYet(err) // of the claim nothing was asked yet; a session without keys is in nobody's way
	}
	var made struct{ ID string }
	if err := r.decode(&made); err != nil {
		return nil, driver.NotYet(err)
	}
	return &session{id: made.ID, kind: k, sent: sent}, nil
}

// prolong starts a session's lease anew. It reports whether the session is over.
func (ss *sessions) prolong(ctx context.Context, s *session) (over bool, err error) {
	sent := boottime.Now()
	info, err := ss.renewal(ctx, s.id)
	if err != nil {
		return false, err
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if info == nil {
		s.over = true
		return true, nil
	}
	s.sent = max(s.sent, sent)
	return false, nil
}

// freshen starts a session's lease anew if much of it is over. The error is [driver.ErrSession] if the session is over.
func (ss *sessions) freshen(ctx context.Context, s *session) error {
	ss.mu.Lock()
	stale := s.left() < s.ttl*3/4
	ss.mu.Unlock()
	if !stale {
		return nil
	}
	return ss.extend(ctx, s)
}

// extend starts a session's lease anew. The error is [driver.ErrSession] if the session is over.
func (ss *sessions) extend(ctx context.Context, s *session) error {
	over, err := ss.prolong(ctx, s)
	if err == nil && over {
		err = driver.ErrSession
	}
	return err
}

// An info is what Consul tells of a session.
type info struct {
	TTL       string
	LockDelay time.Duration
}

// renewal renews a session and returns what it is, or nil if there is none.
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
		ttl = ss.floor // it has none, and never ends by itself
	}
	return &session{id: id, kind: kind{ttl, is.LockDelay}, sent: sent, spoiled: true, borrowed: true}, nil
}

// end ends a session, and with it every request that needs it, unless another client made it.
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

// recycle keeps a session for the next claim, since the one that used it has left. One that is spoiled is ended, and so is
// every request that needs it; and one of another client, which may be gone. The caller holds mu.
func (ss *sessions) recycle(s *session) {
	if ss.agent.ctx.Err() != nil || s.over {
		return
	}
	left := s.left()
	if s.spoiled || left <= 0 {
		ss.life.Go(func() { ss.returnAll([]*session{s}) })
		return
	}
	ss.idle[s.kind] = append(ss.idle[s.kind], s)
	s.expiry = time.AfterFunc(left, func() { ss.retire(s) })
}

// retire gives a session back that was not used for as long as it lasts.
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
		ss.life.Go(func() { ss.returnAll([]*session{s}) })
	}
}

// endAfter ends a session after a while, unless the driver is closed before.
func (ss *sessions) endAfter(s *session, length time.Duration) {
	ss.life.Go(func() {
		timer := time.NewTimer(length)
		defer timer.Stop()
		select {
		case <-timer.C:
			ss.returnAll([]*session{s})
		case <-ss.agent.ctx.Done():
		}
	})
}

// giveBack is recycle for a session that no claim came to use, or for nil.
func (ss *sessions) giveBack(s *session) {
	if s == nil {
		return
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.recycle(s)
}

// drain takes out all sessions that no claim uses. The caller holds mu.
func (ss *sessions) drain() (unused []*session) {
	for _, list := range ss.idle {
		unused = append(unused, list...)
	}
	clear(ss.idle)
	for _, s := range unused {
		s.expiry.Stop()
	}
	return unused
}

// giveBackWithin bounds what is done for sessions that would end by themselves.
const giveBackWithin = time.Second

// returnAll ends sessions, also when the driver is closed. It does not matter if that fails: their time ends them.
func (ss *sessions) returnAll(list []*session) {
	if len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), giveBackWithin)
	defer cancel()
	for _, s := range list {
		if _, err := ss.agent.send(ctx, request{method: http.MethodPut, path: "session/destroy/" + escape(s.id)}); err != nil {
			return
		}
	}
}
