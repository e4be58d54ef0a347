package explore

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Result is what a walk came to.
type Result struct {
	States, Transitions int64
	Depth               int  // of the last state that was new
	Done                bool // the walk came to its fixed point
	Time                time.Duration
	Memory              uint64 // bytes
	Table               Table
	Violation           error // the first, with its trace; the shortest there is
}

// Limits bound a walk. Zero means no limit.
type Limits struct {
	States  int64
	Depth   int
	Until   time.Time
	Memory  int64 // bytes
	Workers int
}

// Walk visits every state of a world, level by level, until it finds a violation, all states, or a limit.
func Walk(conf *Config, limits Limits) *Result {
	if limits.Workers == 0 {
		limits.Workers = min(4, runtime.GOMAXPROCS(0))
	}
	if conf.Depth > 0 && (limits.Depth == 0 || conf.Depth < limits.Depth) {
		limits.Depth = conf.Depth
	}
	s := &search{conf: conf, limits: limits, begin: time.Now(), seen: newSet(), calm: newSet()}
	return s.run()
}

type search struct {
	conf   *Config
	limits Limits
	begin  time.Time
	seen   *set
	calm   *set
	nodes  nodes
	stop   atomic.Bool

	mu    sync.Mutex
	found *violation
}

// A violation is where something is wrong: after the event at the node, or on the calm path from there.
type violation struct {
	node uint32
	ev   Event
	calm bool
	err  error
}

// A node is a state by how it was reached.
type node struct {
	parent uint32
	ev     Event
}

type nodes struct {
	mu  sync.Mutex
	all []node
}

func (n *nodes) add(v node) uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, v)
	return uint32(len(n.all) - 1)
}

// A spot is a state that is to be expanded.
type spot struct {
	w    *World
	node uint32
}

type worker struct {
	s           *search
	table       Table
	transitions int64
	events      []Event
	next        []spot
	pool        []*World
	scratch     *World
	gentle      *World
	path        []Hash
	times       []uint32
	calmEvents  []Event
}

func (s *search) run() *Result {
	first := New(s.conf)
	s.nodes.add(node{})
	s.seen.add(first.Hash(), 0)
	frontier := []spot{{w: first}}
	workers := make([]*worker, s.limits.Workers)
	for i := range workers {
		workers[i] = &worker{s: s, scratch: &World{enc: &coder{}}, gentle: &World{enc: &coder{}}}
	}
	r := &Result{}
	for len(frontier) > 0 && !s.stop.Load() && (s.limits.Depth == 0 || r.Depth < s.limits.Depth) {
		var at atomic.Int64
		var wg sync.WaitGroup
		for _, k := range workers {
			wg.Go(func() {
				for !s.stop.Load() {
					from := int(at.Add(64)) - 64
					if from >= len(frontier) {
						return
					}
					for i := from; i < min(from+64, len(frontier)) && !s.stop.Load(); i++ {
						k.expand(frontier[i])
						k.pool = append(k.pool, frontier[i].w)
						frontier[i].w = nil
					}
					s.bound()
				}
			})
		}
		wg.Wait()
		frontier = frontier[:0]
		for _, k := range workers {
			frontier = append(frontier, k.next...)
			clear(k.next)
			k.next = k.next[:0]
		}
		if len(frontier) > 0 {
			r.Depth++
		}
	}
	for _, k := range workers {
		r.Transitions += k.transitions
		r.Table.Add(&k.table)
	}
	r.States = s.seen.len()
	r.Done = len(frontier) == 0 && !s.stop.Load()
	r.Time = time.Since(s.begin)
	r.Memory = memory()
	if s.found != nil {
		r.Violation = s.explain()
	}
	return r
}

func (s *search) bound() {
	if l := &s.limits; l.States > 0 && s.seen.len() > l.States || !l.Until.IsZero() && time.Now().After(l.Until) ||
		l.Memory > 0 && memory() > uint64(l.Memory) {
		s.stop.Store(true)
	}
}

// memory is what the process has of the system.
func memory() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64() - sample[1].Value.Uint64()
}

func (s *search) fail(v *violation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found == nil {
		s.found = v
	}
	s.stop.Store(true)
}

// expand visits the states after one.
func (k *worker) expand(from spot) {
	k.events = from.w.Events(k.events[:0])
	for _, ev := range k.events {
		to := k.scratch
		to.CopyFrom(from.w)
		to.table = &k.table
		err := to.Step(ev)
		to.table = nil
		k.transitions++
		if err != nil {
			k.s.fail(&violation{node: from.node, ev: ev, err: err})
			return
		}
		h := to.Hash()
		if !k.s.seen.add(h, 0) {
			continue
		}
		n := k.s.nodes.add(node{parent: from.node, ev: ev})
		kept := k.world() // has no more memory than it needs
		kept.CopyFrom(to)
		k.next = append(k.next, spot{w: kept, node: n})
		if err := k.calmDown(to, h); err != nil {
			k.s.fail(&violation{node: from.node, ev: ev, calm: true, err: err})
			return
		}
	}
}

func (k *worker) world() *World {
	if n := len(k.pool); n > 0 {
		w := k.pool[n-1]
		k.pool = k.pool[:n-1]
		return w
	}
	return &World{}
}

// explain plays the path to the violation again, and tells it.
func (s *search) explain() error {
	v := s.found
	path := []Event{v.ev}
	for n := v.node; n != 0; n = s.nodes.all[n].parent {
		path = append(path, s.nodes.all[n].ev)
	}
	for i, j := 0, len(path)-1; i < j; i, j = i+1, j-1 {
		path[i], path[j] = path[j], path[i]
	}
	return errors.New(Play(s.conf, path, v.calm))
}

// Play tells what comes of some events, and of calm after them, until something is wrong. Events that cannot happen are
// left out.
func Play(conf *Config, path []Event, calm bool) string {
	var out strings.Builder
	w := New(conf)
	w.trace = func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	for _, ev := range path {
		if err := w.Step(ev); err != nil {
			fmt.Fprintf(&out, "VIOLATION: %v\n", err)
			return out.String()
		}
	}
	if calm {
		fmt.Fprintf(&out, "From here on there are no faults, and who holds releases:\n")
		k := &worker{s: &search{conf: conf, calm: newSet()}, gentle: &World{enc: &coder{}}}
		if err := k.calmDown(w, w.Hash()); err != nil {
			fmt.Fprintf(&out, "VIOLATION: %v\n", err)
		}
	}
	return out.String()
}
