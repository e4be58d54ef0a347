package explore

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Result is the result of a walk.
type Result struct {
	States, Transitions int64
	Depth               int  // the depth of the last new state
	Done                bool // the walk reached its fixed point
	Time                time.Duration
	Memory              uint64 // bytes
	Table               Table
	Violation           error // the first one, with its trace; the shortest that exists
}

// Limits bound a walk. Zero means no limit.
type Limits struct {
	States  int64
	Depth   int
	Until   time.Time
	Memory  int64 // bytes
	Workers int
	Kept    int64 // how many states of a level are kept as worlds, which take a kilobyte or two each; 0 means 2,000
}

// Walk visits every state of a world, level by level, until it finds a violation, all states, or a limit.
func Walk(conf *Config, limits Limits) *Result {
	if limits.Workers == 0 {
		limits.Workers = min(4, runtime.GOMAXPROCS(0))
	}
	if limits.Kept == 0 {
		limits.Kept = 2_000
	}
	if conf.Depth > 0 && (limits.Depth == 0 || conf.Depth < limits.Depth) {
		limits.Depth = conf.Depth
	}
	s := &search{conf: conf, limits: limits, begin: time.Now(), states: newSet()}
	return s.run()
}

type search struct {
	conf   *Config
	limits Limits
	begin  time.Time
	states *set
	nodes  nodes
	tree   tree         // of the levels before this one
	depth  int          // of this level
	kept   atomic.Int64 // of the next level
	stop   atomic.Bool

	mu    sync.Mutex
	found *violation
}

// A violation says where something is wrong: after an event at the node, or on the calm path from there.
type violation struct {
	node uint32
	ev   Event
	calm bool
	err  error
}

type worker struct {
	s           *search
	table       Table
	transitions int64
	events      []Event
	next        []spot
	room        []node // for new states
	node        uint32 // the number of the first new state
	pool        []*World
	scratch     *World
	gentle      *World
	climber     climber
	path        []Hash
	calmEvents  []Event
}

func (s *search) run() *Result {
	workers := make([]*worker, s.limits.Workers)
	for i := range workers {
		workers[i] = &worker{s: s, scratch: &World{enc: &coder{}}, gentle: &World{enc: &coder{}}}
	}
	first := New(s.conf)
	s.states.mark(first.Hash(), seen)
	workers[0].add(node{})
	frontier := []spot{{w: first}}
	for len(frontier) > 0 && !s.stop.Load() && (s.limits.Depth == 0 || s.depth < s.limits.Depth) {
		frontier = s.level(workers, frontier)
		if len(frontier) > 0 {
			s.depth++
		}
	}
	r := &Result{Depth: s.depth, States: s.states.len(), Done: len(frontier) == 0 && !s.stop.Load()}
	for _, k := range workers {
		r.Transitions += k.transitions
		r.Table.Add(&k.table)
	}
	r.Time = time.Since(s.begin)
	r.Memory = memory()
	if s.found != nil {
		r.Violation = s.explain()
	}
	return r
}

// level expands the states of a level, and returns the new ones, in the order of the tree.
func (s *search) level(workers []*worker, frontier []spot) []spot {
	const size = 64
	chunks := make([][]spot, (len(frontier)+size-1)/size)
	var at atomic.Int64
	var wg sync.WaitGroup
	s.tree = s.nodes.blocks
	s.kept.Store(0)
	for _, k := range workers {
		wg.Go(func() {
			for !s.stop.Load() {
				i := int(at.Add(1)) - 1
				if i >= len(chunks) {
					return
				}
				chunk := frontier[i*size : min((i+1)*size, len(frontier))]
				for j := range chunk {
					k.visit(&chunk[j])
				}
				chunks[i] = slices.Clone(k.next)
				clear(k.next)
				k.next = k.next[:0]
				s.bound()
			}
		})
	}
	wg.Wait()
	next := frontier[:0]
	if n := total(chunks); n > cap(next) {
		next = make([]spot, 0, n)
	}
	for _, c := range chunks {
		next = append(next, c...)
	}
	return next
}

func total(chunks [][]spot) (n int) {
	for _, c := range chunks {
		n += len(c)
	}
	return n
}

func (s *search) bound() {
	if l := &s.limits; l.States > 0 && s.states.len() > l.States || !l.Until.IsZero() && time.Now().After(l.Until) ||
		l.Memory > 0 && memory() > uint64(l.Memory) {
		s.stop.Store(true)
	}
}

// memory returns how many bytes the process has from the system.
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

// visit expands one state.
func (k *worker) visit(from *spot) {
	if k.s.stop.Load() {
		return
	}
	w := from.w
	if w == nil {
		w = k.climber.climb(k.s.conf, k.s.tree, from.node, k.s.depth)
	}
	k.expand(w, from.node)
	if from.w != nil {
		k.pool = append(k.pool, from.w)
		from.w = nil
	}
}

// expand visits the states after one, and follows its calm path, whose first event is one of these.
func (k *worker) expand(from *World, at uint32) {
	h := from.Hash()
	k.events = from.Events(k.events[:0])
	calm, err := from.calm(k.events)
	if err != nil {
		k.s.fail(&violation{node: at, calm: true, err: err})
		return
	}
	if calm < 0 {
		k.s.states.mark(h, rested)
	}
	to := k.scratch
	to.CopyFrom(from)
	for i, ev := range k.events {
		if i > 0 {
			to.back(from)
		}
		to.table = &k.table
		err := to.Step(ev)
		to.table = nil
		k.transitions++
		if err != nil {
			k.s.fail(&violation{node: at, ev: ev, err: err})
			return
		}
		next := to.Hash()
		if k.s.states.mark(next, seen) {
			k.keep(to, node{parent: at, ev: ev.pack()})
		}
		if i != calm {
			continue
		}
		k.path = append(k.path[:0], h)
		if err := k.calmDown(to); err != nil {
			k.s.fail(&violation{node: at, calm: true, err: err})
			return
		}
	}
}

// keep puts a new state into the next level.
func (k *worker) keep(w *World, n node) {
	next := spot{node: k.add(n)}
	if k.s.kept.Load() < k.s.limits.Kept {
		k.s.kept.Add(1)
		next.w = k.world() // takes no more memory than it needs
		next.w.CopyFrom(w)
	}
	k.next = append(k.next, next)
}

// add adds a node to the tree.
func (k *worker) add(n node) uint32 {
	if len(k.room) == 0 {
		k.room, k.node = k.s.nodes.block()
	}
	k.room[0] = n
	k.room = k.room[1:]
	k.node++
	return k.node - 1
}

func (k *worker) world() *World {
	if n := len(k.pool); n > 0 {
		w := k.pool[n-1]
		k.pool = k.pool[:n-1]
		return w
	}
	return &World{}
}

// explain plays the path to the violation again, and describes it.
func (s *search) explain() error {
	v := s.found
	var path []Event
	if !v.calm {
		path = append(path, v.ev)
	}
	all := tree(s.nodes.blocks)
	for n := v.node; n != 0; n = all.at(n).parent {
		path = append(path, all.at(n).ev.event())
	}
	slices.Reverse(path)
	return errors.New(Play(s.conf, path, v.calm))
}

// Play plays some events, and calm after them, until something is wrong, and describes what happens. It leaves out events
// that cannot happen.
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
		if err := quiet(conf, w); err != nil {
			fmt.Fprintf(&out, "VIOLATION: %v\n", err)
		}
	}
	return out.String()
}
