package sim_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// patience is the P of docs/reference/bounds.md.
const patience = 4 * time.Second

// longest is the deadline of the calls' contexts.
const longest = 20 * patience

// lengths are the lengths that docs/reference/bounds.md states.
var lengths = map[string]time.Duration{
	"at once": 0, "P": patience, "¾ P": patience * 3 / 4, "1½ P": patience * 3 / 2,
	"6 P": 6 * patience, "7 P": 7 * patience, "12 P + 4 s": 12*patience + 4*time.Second, "1 s": time.Second, "its turn + 2 P": 2 * patience,
}

var sentinels = map[string]error{
	"ErrUnreachable": stile.ErrUnreachable, "ErrUnknown": stile.ErrUnknown, "ErrClosed": stile.ErrClosed, "ErrLost": stile.ErrLost,
	"": nil,
}

// A scene is a world in which one call is measured.
type scene struct {
	*world
	a     *peer
	lease *stile.Lease  // of "held", taken before the store failed
	pair  *stile.Lease  // of two joined locks
	left  stile.Handle  // of "left"
	line  <-chan result // the waiter for "taken"
	took  *stile.Lease  // another client's, of "taken"

	next func() error // the next yield of a loop that began before
}

// A measure makes a call. The test does not measure the setup before it.
type measure func(s *scene, ctx context.Context) error

// measures are the calls of docs/reference/bounds.md.
var measures = map[string]measure{
	"`Open`": func(s *scene, ctx context.Context) error {
		c, err := stile.Open(ctx, "paced://", &stile.Options{Patience: patience})
		if err == nil {
			err = c.Close()
		}
		return err
	},
	"`New`": func(s *scene, ctx context.Context) error {
		c, err := stile.New(s.a.d.Store().Driver(), nil)
		if err == nil {
			s.Cleanup(func() { c.Close() })
		}
		return err
	},
	"`Lock`": func(s *scene, ctx context.Context) error { return s.keepLease(s.a.Mutex("x").Lock(ctx)) },
	"`Lock`, in the store's queue": func(s *scene, ctx context.Context) error {
		r := <-s.line
		return s.keepLease(r.Lease, r.err)
	},
	"`LockWithin` 1 s": func(s *scene, ctx context.Context) error {
		return s.keepLease(s.a.Mutex("x").LockWithin(ctx, time.Second))
	},
	"`TryLock`": func(s *scene, ctx context.Context) error { return s.keepLease(s.a.Mutex("x").TryLock(ctx)) },
	"`Do`, without its function": func(s *scene, ctx context.Context) error {
		return s.a.Mutex("x").Do(ctx, func(context.Context) error { return nil })
	},
	"`Unlock`":      func(s *scene, ctx context.Context) error { return s.lease.Unlock() },
	"`UnlockAfter`": func(s *scene, ctx context.Context) error { return s.lease.UnlockAfter(time.Minute) },
	"`Lock` of two that are joined": func(s *scene, ctx context.Context) error {
		return s.keepLease(stile.Join(s.a.Mutex("x"), s.a.Mutex("y")).Lock(ctx))
	},
	"`Unlock` of two that are joined": func(s *scene, ctx context.Context) error { return s.pair.Unlock() },
	"`Check`":                         func(s *scene, ctx context.Context) error { return s.lease.Check() },
	"`State`":                         func(s *scene, ctx context.Context) error { s.lease.State(); return nil },
	"`Deadline`":                      func(s *scene, ctx context.Context) error { s.lease.Deadline(); return nil },
	"`Context`":                       func(s *scene, ctx context.Context) error { s.lease.Context(); return nil },
	"`Show`":                          func(s *scene, ctx context.Context) error { _, err := s.a.Show(ctx, "x"); return err },
	"`List`":                          func(s *scene, ctx context.Context) error { _, err := s.a.List(ctx, ""); return err },
	"`Leader`":                        func(s *scene, ctx context.Context) error { _, err := s.a.Leader(ctx, "x"); return err },
	"`Watch`, until it first yields": func(s *scene, ctx context.Context) error {
		for _, err := range s.a.Watch(ctx, "x") {
			return err
		}
		return errEnough
	},
	"`Observe`, until it first yields": func(s *scene, ctx context.Context) error {
		for _, err := range s.a.Observe(ctx, "x") {
			return err
		}
		return errEnough
	},
	"`Watch`, from one yield to the next":   func(s *scene, ctx context.Context) error { return s.next() },
	"`Observe`, from one yield to the next": func(s *scene, ctx context.Context) error { return s.next() },
	"`Break`": func(s *scene, ctx context.Context) error {
		_, err := s.a.Break(ctx, "taken", stile.BreakOptions{Head: true})
		return err
	},
	"`Detach`": func(s *scene, ctx context.Context) error { _, err := s.lease.Detach(ctx); return err },
	"`Attach`": func(s *scene, ctx context.Context) error { return s.keepLease(s.a.Attach(ctx, s.left)) },
	"`Close`":  func(s *scene, ctx context.Context) error { return s.a.Close() },
}

// followed runs the loop until its first yield, and returns a function that waits for the error of the next one.
func followed[T any](s *scene, all iter.Seq2[T, error]) func() error {
	next, stop := iter.Pull2(all)
	s.Cleanup(stop)
	if _, err, ok := next(); err != nil || !ok {
		s.Fatalf("it first yields %v, %v; want what is there", err, ok)
	}
	return func() error {
		_, err, _ := next()
		stop()
		return err
	}
}

// columns are the columns of docs/reference/bounds.md, each with its fault of the store.
var columns = map[string]func(s *scene){
	"silent":      func(s *scene) { s.a.d.SetLink(memory.Silent) },
	"slow":        func(s *scene) { s.a.d.Inject(memory.Fault{Times: -1, Before: patience * 3 / 4}) },
	"gone":        func(s *scene) { s.a.d.SetLink(memory.Refused) },
	"after Close": func(s *scene) { lasts(s.a.Close) },
}

func init() {
	driver.Register("paced", func(ctx context.Context, _ *driver.Address) (driver.Driver, error) {
		d := memory.New()
		ask, _ := ctx.Value(askKey{}).(func(*memory.Driver))
		ask(d)
		if _, err := d.List(ctx, &driver.Query{}); err != nil {
			return nil, errors.Join(err, d.Close())
		}
		return d, nil
	})
}

type askKey struct{}

// No call lasts longer than docs/reference/bounds.md says, and each can last about that long.
func TestBounds(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/bounds.md")
	if err != nil {
		t.Fatal(err)
	}
	var head []string
	rows := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		switch {
		case head == nil:
			head = cells
		case cells[0] == "---":
		case measures[cells[0]] == nil || rows[cells[0]] || len(cells) != len(head):
			t.Errorf("no measure for %s, or two of them", line)
		default:
			rows[cells[0]] = true
			for i, cell := range cells[1:] {
				t.Run(cells[0]+"/"+head[i+1], func(t *testing.T) { bounded(t, cells[0], head[i+1], cell) })
			}
		}
	}
	if len(rows) != len(measures) || len(head) != len(columns)+1 {
		t.Errorf("the table has %d rows and the columns %v; want each of the %d calls", len(rows), head, len(measures))
	}
}

// bounded measures one cell of the table.
func bounded(t *testing.T, row, column, cell string) {
	if cell == "–" {
		return // there is no such call
	}
	text, name, _ := strings.Cut(cell, ": ")
	bound, known := lengths[text]
	want, named := sentinels[strings.Trim(name, "`")]
	spoil := columns[column]
	if !known || !named || spoil == nil {
		t.Fatalf("%q is not understood", cell)
	}
	inWorld(t, func(w *world) {
		s := &scene{world: w, a: w.join(&stile.Options{Patience: patience})}
		b := w.join(&stile.Options{LockOptions: stile.LockOptions{TTL: time.Hour}})
		s.took = w.lock(b.Mutex("taken"))
		h, err := w.lock(b.Mutex("left")).Detach(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		s.left = h
		s.lease = w.lock(s.a.Mutex("held"))
		s.pair = w.lock(stile.Join(s.a.Mutex("one"), s.a.Mutex("two")))
		s.line = w.inLine(w.Context(), s.a.Mutex("taken"))
		ctx, cancel := context.WithTimeout(context.WithValue(w.Context(), askKey{}, func(d *memory.Driver) {
			columns[column](&scene{a: &peer{d: d}})
		}), longest)
		defer cancel()
		switch row {
		case "`Watch`, from one yield to the next":
			s.next = followed(s, s.a.Watch(ctx, "x"))
		case "`Observe`, from one yield to the next":
			s.next = followed(s, s.a.Observe(ctx, "x"))
		}
		spoil(s)
		turn := strings.HasPrefix(text, "its turn")
		if turn {
			pass(longest / 8)
			w.unlock(s.took)
		}
		var got error
		lasted := took(func() { got = measures[row](s, ctx) })
		if lasted > bound || lasted < bound/2 && !turn {
			w.Errorf("it lasted %v; the table says %v", lasted, bound)
		}
		switch {
		case want != nil && errors.Is(got, want), want == nil && got == nil, row == "`Close`":
		default:
			w.Errorf("got %v; the table says %v", got, want)
		}
	})
}
