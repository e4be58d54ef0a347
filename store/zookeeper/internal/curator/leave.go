package curator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/ensemble"
	"github.com/stilelock/stile/store/zookeeper/internal/line"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// Renew renews all parts of claims together. A claim that has lost one of them is gone.
func (sem *Semaphore) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	if driver.Amending(cs) {
		return driver.Unamended(ctx, cs, sem.Renew)
	}
	answers := make([]driver.Renewal, len(cs))
	wholes := make([]*wholeClaim, len(cs))
	parts, of := sem.partsOf(cs, answers, wholes)
	for k, got := range sem.line.RenewAll(ctx, parts) {
		i := of[k]
		if errors.Is(got.Err, driver.ErrGone) && sem.passed(wholes[i], parts[k]) {
			continue // the claim holds by now, and its lock node is gone
		}
		if worse(got.Err, answers[i].Err) {
			answers[i].Err = got.Err
		}
		answers[i].TTL = min(answers[i].TTL, got.TTL)
		answers[i].Asks += got.Asks
	}
	for i, w := range wholes {
		switch {
		case w == nil:
			continue
		case errors.Is(answers[i].Err, driver.ErrGone):
			sem.abandon(w)
		}
		if answers[i].Err != nil || answers[i].TTL == line.Never {
			answers[i].TTL = 0
		}
	}
	return answers
}

// partsOf returns the parts of claims that must be renewed, and the index of each part's claim. It puts the known claims
// into wholes, and answers the others.
func (sem *Semaphore) partsOf(
	cs []*driver.Claim, answers []driver.Renewal, wholes []*wholeClaim,
) (parts []*driver.Claim, of []int) {
	sem.mu.Lock()
	defer sem.mu.Unlock()
	for i, c := range cs {
		w := sem.wholes[c.ID]
		if w == nil || w.phase >= partsLeaving {
			answers[i].Err = driver.ErrGone
			continue
		}
		wholes[i], answers[i].TTL = w, line.Never
		for _, part := range w.partsLocked(c) {
			if part.Ticket != 0 || w.phase == partsAsking { // otherwise its request is under way
				parts, of = append(parts, part), append(of, i)
			}
		}
	}
	return parts, of
}

// worse reports whether one part's error says more about the whole claim than another part's.
func worse(is, was error) bool {
	return is != nil && (was == nil || errors.Is(is, driver.ErrGone) && !errors.Is(was, driver.ErrGone))
}

// passed reports whether a part is the lock part of a claim that holds.
func (sem *Semaphore) passed(w *wholeClaim, part *driver.Claim) bool {
	sem.mu.Lock()
	defer sem.mu.Unlock()
	return w.phase == partsHolding && part.ID == w.lockPartLocked(part).ID
}

// Leave removes all nodes of a claim, or keeps its permits.
func (sem *Semaphore) Leave(ctx context.Context, dir string, l *driver.Release) error {
	w := sem.wholeClaimOf(l.Claim.ID)
	if w == nil {
		return ensemble.Asking(sem.leaveOther(ctx, dir, l))
	}
	parts, keep := sem.part(ctx, l, w)
	var failed error
	left := false
	for _, part := range parts {
		lc := sem.line.LocalClaimOf(part.ID)
		if lc == nil {
			continue
		}
		err := sem.line.Leave(ctx, &driver.Release{Claim: part, Keep: keep}, lc)
		switch {
		case err == nil:
			left = true
		case !errors.Is(err, driver.ErrGone) && (failed == nil || ensemble.Final(failed)):
			failed = err
		}
	}
	if failed != nil && !ensemble.Final(failed) {
		return driver.Unknown(failed)
	}
	if failed != nil { // a final refusal: the claim is over here, whether or not its nodes exist
		sem.unlist(w)
		return failed
	}
	if keep == 0 || !left {
		sem.unlist(w)
	}
	if !left {
		return driver.ErrGone
	}
	return nil
}

// part begins the release of a claim. It returns the claim's parts, and for how long they must be kept.
func (sem *Semaphore) part(ctx context.Context, l *driver.Release, w *wholeClaim) (parts []*driver.Claim, keep time.Duration) {
	sem.mu.Lock()
	phase := w.phase
	sem.mu.Unlock()
	if l.Keep > 0 && (phase == partsQueued || phase == partsTaking) {
		_, _ = sem.advance(ctx, l.Claim, w) // there may be room for it by now, unknown to its client
	}
	sem.mu.Lock()
	defer sem.mu.Unlock()
	parts, keep = w.partsLocked(l.Claim), l.Keep
	if w.phase == partsHolding && keep > 0 {
		w.phase = partsKeeping
	}
	if w.phase != partsKeeping {
		w.phase, keep = partsLeaving, 0
	}
	return parts, keep
}

// leaveOther removes another client's claim.
func (sem *Semaphore) leaveOther(ctx context.Context, dir string, l *driver.Release) error {
	s, err := sem.zk.Live()
	if err != nil {
		return err
	}
	line, err := sem.readLine(ctx, s, dir, true)
	if err != nil {
		return err
	}
	i := line.find(l.Claim.ID)
	if i < 0 {
		return driver.ErrGone
	}
	left := driver.ErrGone
	for _, path := range line[i].nodes {
		parent, name := znode.Split(dir + path)
		err := sem.line.Folder(s, parent).LeaveNode(ctx, name, l.Keep)
		switch {
		case err == nil:
			left = nil
		case ensemble.Final(err) && left != nil:
			return err
		case !errors.Is(err, driver.ErrGone):
			return driver.Unknown(err)
		}
	}
	return left
}

// Break removes all nodes of a claim by hand, or asks for it at the first of its permits.
func (sem *Semaphore) Break(
	ctx context.Context, s *wire.Session, dir string, b *driver.BreakRequest,
) (driver.ClaimInfo, error) {
	l, err := sem.readLine(ctx, s, dir, true)
	if err != nil {
		return driver.ClaimInfo{}, err
	}
	l, standings, err := sem.inLine(ctx, s, dir, l)
	if err != nil {
		return driver.ClaimInfo{}, err
	}
	i := slices.IndexFunc(standings, func(seen driver.ClaimInfo) bool { return b.Ticket == 0 || seen.Ticket == b.Ticket })
	if i < 0 {
		return driver.ClaimInfo{}, driver.ErrGone
	}
	if b.Ask {
		first := wire.Get(dir+l[i].nodes[0], nil)
		if err := sem.zk.Do(ctx, s, first); err != nil {
			return driver.ClaimInfo{}, driver.NotYet(err)
		}
		return standings[i], sem.line.Folder(s, dir).Ask(ctx, &standings[i], first)
	}
	var dels []*wire.Call
	for _, path := range l[i].nodes {
		dels = append(dels, wire.Delete(dir+path))
	}
	deleted, _, err := sem.zk.Delete(ctx, s, dels...)
	switch {
	case err != nil:
		return driver.ClaimInfo{}, err
	case !deleted:
		return driver.ClaimInfo{}, driver.ErrGone
	}
	return standings[i], nil
}
