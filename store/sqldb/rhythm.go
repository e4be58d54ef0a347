package sqldb

import "time"

// A rhythm schedules a poller's polls, and decides which of them ask for claims that were released and are kept. Such a
// claim usually ends before its lease would have, and a waiter that has entered knows only the end of the lease. The client
// that keeps a claim wakes the first waiter. If the wakeup is lost, or the store has none, the poller notices the kept claim
// by itself.
type rhythm struct {
	news  time.Time // when there was news last
	known waited    // claims of recent polls: such a claim that enters again is no news
	came  bool      // a claim was unknown, or a watched or kept claim should have run out, and no poll has reported it yet
	ahead int       // how many claims are before the claim that is nearest to hold
	due   time.Time // when a watched or kept claim runs out; zero means never
	asked time.Time // when it last asked for kept claims
	owed  bool      // there was news since, so there may be kept claims
}

// The times between two polls that ask for kept claims.
const (
	keptSoon   = 100 * time.Millisecond // after news
	keptSeldom = 500 * time.Millisecond
)

// begin resets the rhythm after a time without waiters.
func (r *rhythm) begin() { *r = rhythm{news: r.news, known: r.known, asked: r.asked} }

// asks completes a request. It is fresh if there is a new waiter, or if a watched or kept claim should have run out.
func (r *rhythm) asks(g *PollRequest, fresh bool) {
	over, since := !r.due.IsZero() && !time.Now().Before(r.due), time.Since(r.asked)
	r.owed = r.owed || g.Woken
	r.came = r.known.meets(g.Claims) || r.came || over || fresh && len(g.Names) > 0
	g.Fresh, g.Came = fresh || over, r.came
	g.Kept = len(g.Claims) > 0 && (over || since >= keptSeldom || r.owed && since >= keptSoon)
}

// pause notes the result of a poll, and returns the time until the next. A result is no news if the poll had to return one.
func (r *rhythm) pause(s Store, g *PollRequest, says bool, err error) time.Duration {
	if err != nil {
		return s.Pause(time.Since(r.news), r.ahead) // the store cannot be asked for kept claims now
	}
	if r.came || says && (g.Woken || !g.Kept && !g.Fresh) {
		r.news = time.Now()
	}
	r.came = false
	switch {
	case g.Kept:
		r.asked, r.owed = time.Now(), false
	case says:
		r.owed = len(g.Claims) > 0
	}
	pause := s.Pause(time.Since(r.news), r.ahead)
	if r.owed {
		pause = min(pause, keptSoon-time.Since(r.asked))
	}
	if !r.due.IsZero() {
		pause = min(pause, time.Until(r.due))
	}
	return max(pause, 0)
}

// A waited has the ids of claims that waited recently.
type waited struct {
	now, before map[string]bool
	since       time.Time // when now was begun
}

// knownFor is the least time for which a claim that does not wait is remembered. An Enter usually takes less.
const knownFor = 2 * time.Second

// meets reports whether any of the claims is unknown, and remembers them all.
func (k *waited) meets(claims []Waiting) (unknown bool) {
	if since := time.Since(k.since); since > 2*knownFor {
		*k = waited{map[string]bool{}, nil, time.Now()}
	} else if since > knownFor {
		*k = waited{map[string]bool{}, k.now, time.Now()}
	}
	for _, c := range claims {
		unknown = unknown || !k.now[c.ID] && !k.before[c.ID]
		k.now[c.ID] = true
	}
	return unknown
}

// Slow returns the pause between two polls of a waiter that nobody wakes: a hundredth of the time without news, within the
// bounds. So a waiter costs less if locks are held longer. A poll because a claim enters again brings no news.
func Slow(quiet, least, most time.Duration) time.Duration { return min(max(quiet/100, least), most) }
