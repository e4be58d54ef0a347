package memcached

import (
	"context"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// How long a client lets pass between two looks at a name, if its claim is next. It looks often after there was news,
// since many sections are short. Those behind look less often, so many times as they have others before them.
const (
	lookSoon   = time.Millisecond
	lookLater  = 3 * time.Millisecond
	lookAtLast = 8 * time.Millisecond
	lookRarely = 100 * time.Millisecond // at most

	soon  = 50 * time.Millisecond // after news
	later = time.Second
)

// pause returns how long to wait for the next look, when there was news so long ago and so many stand before.
func pause(since time.Duration, ahead int) time.Duration {
	p := lookAtLast
	switch {
	case since < soon:
		p = lookSoon
	case since < later:
		p = lookLater
	}
	return min(p*time.Duration(max(ahead, 1)), lookRarely)
}

// rooms are where claims wait, one room for each name, with a goroutine that looks for all in it.
type rooms struct {
	d    *Driver
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex // guards what follows, and what is in the rooms
	byName map[string]*room
}

type room struct {
	name  string
	waits map[*wait]bool
	kick  chan struct{} // has room for one: look now
}

// A wait is for a claim to come to hold.
type wait struct {
	id   string
	told chan outcome // has room for one
}

// An outcome is what is told, once.
type outcome struct {
	place driver.Place
	err   error
}

func (r *rooms) open(d *Driver) {
	r.d, r.byName = d, map[string]*room{}
	r.ctx, r.stop = context.WithCancel(context.Background())
}

func (r *rooms) close() {
	r.mu.Lock()
	r.stop()
	r.mu.Unlock()
	r.work.Wait()
}

// Await is [driver.Driver].
func (d *Driver) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	w := &wait{id: c.ID, told: make(chan outcome, 1)}
	in := d.rooms.join(c.Name, w)
	if in == nil {
		return driver.Place{}, driver.ErrClosed
	}
	defer d.rooms.leave(in, w)
	select {
	case o := <-w.told:
		return o.place, o.err
	case <-ctx.Done():
		return driver.Place{}, driver.Ended(ctx, true)
	case <-d.rooms.ctx.Done():
		return driver.Place{}, driver.ErrClosed
	}
}

// join puts a wait into the room of a name. It returns nil if the driver is closed.
func (r *rooms) join(name string, w *wait) *room {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return nil
	}
	in := r.byName[name]
	if in == nil {
		in = &room{name: name, waits: map[*wait]bool{}, kick: make(chan struct{}, 1)}
		r.byName[name] = in
		r.work.Go(func() { r.watch(in) })
	}
	in.waits[w] = true
	in.look()
	return in
}

func (r *rooms) leave(in *room, w *wait) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(in.waits, w)
}

func (in *room) look() {
	select {
	case in.kick <- struct{}{}:
	default:
	}
}

// changed has those who wait for a name look at once, since this client has changed it.
func (r *rooms) changed(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if in := r.byName[name]; in != nil {
		in.look()
	}
}

// waiting returns who waits in a room. If nobody does, the room is given up.
func (r *rooms) waiting(in *room) []*wait {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(in.waits) == 0 || r.ctx.Err() != nil {
		delete(r.byName, in.name)
		return nil
	}
	list := make([]*wait, 0, len(in.waits))
	for w := range in.waits {
		list = append(list, w)
	}
	return list
}

// watch looks at a name until nobody waits for it any more.
func (r *rooms) watch(in *room) {
	var (
		seen *snapshot
		news = time.Now()
		key  = r.d.key(in.name)
	)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		waits := r.waiting(in)
		if waits == nil {
			return
		}
		is, err := r.d.look(r.ctx, in.name, key, seen)
		ahead := 0
		switch {
		case err != nil && !driver.IsUnreachable(err):
			r.tell(in, waits, func(*wait) *outcome { return &outcome{err: err} })
		case err == nil:
			if seen == nil || is.cas != seen.cas || is.conn != seen.conn {
				news = time.Now()
			}
			seen = is
			ahead = r.see(in, waits, is)
		default:
			seen = nil
		}
		timer.Reset(pause(time.Since(news), ahead))
		select {
		case <-timer.C:
		case <-in.kick:
		case <-r.ctx.Done():
		}
	}
}

// see tells each who has something to do, and returns how many stand before the first of the others.
func (r *rooms) see(in *room, waits []*wait, s *snapshot) (ahead int) {
	q := s.clone()
	r.tell(in, waits, func(w *wait) *outcome {
		p, err := q.Look(s.micros(), w.id)
		switch {
		case err != nil, p.Holds && !q.Entries[p.Ahead].Told:
			return &outcome{} // its next Enter is told, or has it told
		case p.Holds:
			return &outcome{place: driver.Place{Ticket: p.Ticket, Holds: true, Ahead: p.Ahead}}
		}
		if ahead == 0 || p.Ahead < ahead {
			ahead = p.Ahead
		}
		return nil
	})
	return ahead
}

// tell tells the waits what there is for them.
func (r *rooms) tell(in *room, waits []*wait, what func(*wait) *outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range waits {
		if !in.waits[w] {
			continue
		}
		if o := what(w); o != nil {
			delete(in.waits, w)
			w.told <- *o
		}
	}
}

// look returns the queue of a name. If it has not changed since it was seen, that is one short answer.
func (d *Driver) look(ctx context.Context, name, key string, seen *snapshot) (*snapshot, error) {
	c, err := d.link.get(ctx)
	if err != nil {
		return nil, err
	}
	if seen != nil && seen.conn == c && seen.cas != 0 {
		r, err := c.do(ctx, appendPeek(nil, key), 1)
		if err != nil {
			return nil, d.link.explain(err)
		}
		if r[0].status == "HD" {
			cas, err := r[0].version(key)
			left, err2 := r[0].number('t')
			if err == nil && err2 == nil && cas == seen.cas && left >= 0 {
				is := *seen
				is.now = is.until - left
				c.clock.see(is.now)
				return &is, nil
			}
		}
	}
	is, err := d.read(ctx, c, name, key)
	return is, d.link.explain(err)
}
