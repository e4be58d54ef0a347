package inspect

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/answer"
)

// A standing is a claim in the queue of its name.
type standing struct {
	stile.Claim
	name    string
	permits int64
	at      int  // in the queue
	gone    bool // it will end without help
}

// entry is the name of this claim in the records of other claims.
func (s *standing) entry() string { return fmt.Sprintf("%d %s", s.Ticket, s.name) }

// A deadlocks has a store's holders and waiters, and finds out which of them can end.
type deadlocks struct {
	queues [][]*standing
	of     map[string]*standing // by their entries
	room   []int64              // the capacity of each queue
}

// circlesIn returns the circles of claims that wait for each other, as far as the queues show them. It removes claims that
// will end without help as long as there are any: a claim that holds, unless its holder waits with another claim. The
// remaining claims wait for ever, in a circle or behind one.
func circlesIn(queues []stile.Queue) [][]*standing {
	d := &deadlocks{of: map[string]*standing{}}
	for _, q := range queues {
		var line []*standing
		for i, c := range q.Claims {
			s := &standing{Claim: c, name: q.Name, permits: q.Permits, at: i}
			line, d.of[s.entry()] = append(line, s), s
		}
		d.queues, d.room = append(d.queues, line), append(d.room, roomOf(q.Permits))
	}
	for d.reduce() {
	}
	return d.circles()
}

func roomOf(permits int64) int64 {
	if permits == 0 {
		return driver.All
	}
	return permits
}

// reduce removes the claims that will end, and reports whether there were any.
func (d *deadlocks) reduce() (any bool) {
	held := map[*standing]bool{} // by a holder that waits with another claim
	for i := range d.queues {
		for _, s := range d.waiting(i) {
			for _, h := range d.heldBy(s) {
				held[h] = true
			}
		}
	}
	for i, line := range d.queues {
		waits := d.waiting(i)
		for _, s := range line {
			if !s.gone && !held[s] && !slices.Contains(waits, s) {
				s.gone, any = true, true
			}
		}
	}
	return any
}

// waiting returns the claims of a queue that do not hold once the ending claims are gone.
func (d *deadlocks) waiting(queue int) (all []*standing) {
	taken := int64(0)
	for _, s := range d.queues[queue] {
		if s.gone {
			continue
		}
		if taken += roomOf(s.Weight); !s.Holds && !s.Left && taken > d.room[queue] {
			all = append(all, s)
		}
	}
	return all
}

// heldBy returns the claims that the client of a waiting claim holds.
func (d *deadlocks) heldBy(s *standing) (all []*standing) {
	for line := range strings.Lines(s.Holder.Within) {
		if h := d.of[strings.TrimSuffix(line, "\n")]; h != nil && !h.gone {
			all = append(all, h)
		}
	}
	return all
}

// circles returns the circles among the remaining claims. In a circle, a waiting claim waits for a claim whose holder waits
// with the next claim, and so on. The claim with the first name begins the circle, whatever claims wait behind it, so that
// two readings show the same.
func (d *deadlocks) circles() (all [][]*standing) {
	done := map[*standing]bool{}
	for i := range d.queues {
		for _, s := range d.waiting(i) {
			var way []*standing
			for s != nil && !done[s] {
				done[s] = true
				way = append(way, s)
				s = d.next(s)
				if at := slices.Index(way, s); at >= 0 {
					all = append(all, fromFirst(way[at:]))
				}
			}
		}
	}
	return all
}

// fromFirst turns a circle so that the claim with the first name begins it, and of several such claims the earliest.
func fromFirst(circle []*standing) []*standing {
	first := slices.MinFunc(circle, func(a, b *standing) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.Ticket, b.Ticket))
	})
	at := slices.Index(circle, first)
	return slices.Concat(circle[at:], circle[:at])
}

// next returns the waiting claim that another claim waits for: one before it in the queue, or a waiting claim of the holder
// of one before it.
func (d *deadlocks) next(s *standing) *standing {
	i := slices.IndexFunc(d.queues, func(line []*standing) bool { return line[0].name == s.name })
	for _, b := range d.queues[i][:s.at] {
		if b.gone || roomOf(b.Weight) == 1 && roomOf(s.Weight) == 1 && d.room[i] == driver.All {
			continue
		}
		for j := range d.queues {
			for _, w := range d.waiting(j) {
				if w == b || slices.Contains(d.heldBy(w), b) {
					return w
				}
			}
		}
	}
	return nil
}

// deadlocksOf reads the queues twice. So the circles that it returns existed at one moment, between the two readings, even
// if the store does not list all of its names at once.
func deadlocksOf(ctx context.Context, c *stile.Client, prefix string) ([][]*standing, error) {
	var looks [2][][]*standing
	for i := range looks {
		queues, err := store.Names(ctx, c, prefix)
		if err != nil {
			return nil, err
		}
		looks[i] = circlesIn(queues)
		if len(looks[i]) == 0 {
			return nil, nil
		}
	}
	same := func(a, b *standing) bool { return a.entry() == b.entry() }
	return slices.DeleteFunc(looks[1], func(circle []*standing) bool {
		return !slices.ContainsFunc(looks[0], func(was []*standing) bool { return slices.EqualFunc(was, circle, same) })
	}), nil
}

// A circleView is one claim of a circle in JSON: it waits for the next one's holder.
type circleView struct {
	Name string   `json:"name"` // the name that it waits for
	Has  []string `json:"has"`  // names that its holder has meanwhile
	ClaimView
}

// showDeadlocks writes circles for a person, or as JSON.
func showDeadlocks(w io.Writer, circles [][]*standing, asJSON bool) error {
	if asJSON {
		views := make([][]circleView, len(circles))
		for i, circle := range circles {
			for _, s := range circle {
				claim := viewOf(stile.Queue{Permits: s.permits, Claims: []stile.Claim{s.Claim}}).Claims[0]
				views[i] = append(views[i], circleView{s.name, s.has(), claim})
			}
		}
		return answer.JSON(w, views, "  ")
	}
	if len(circles) == 0 {
		_, err := fmt.Fprintln(w, "nobody waits in a circle")
		return err
	}
	for _, circle := range circles {
		fmt.Fprintf(w, "a possible deadlock of %d:\n", len(circle))
		for i, s := range circle {
			edge := "│ "
			switch {
			case len(circle) == 1:
				edge = "○ "
			case i == 0:
				edge = "┌▶"
			case i == len(circle)-1:
				edge = "└─"
			}
			has := "has nothing"
			if all := s.has(); len(all) > 0 {
				has = "has " + strings.Join(all, ", ")
			}
			if _, err := fmt.Fprintf(w, "  %s %v %s and waits for %s\n", edge, s.Holder, has, s.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// has returns the names of the locks in the record.
func (s *standing) has() []string {
	all := []string{}
	for line := range strings.Lines(s.Holder.Within) {
		_, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		all = append(all, name)
	}
	return all
}
