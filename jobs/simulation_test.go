package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

// Machines run a job and calls of Once while their connections fail, and while they crash and are replaced. No two runs
// overlap, tokens rise, a tick has one run, and an answered call does not run again while its answer is kept.
func TestSimulation(t *testing.T) {
	for seed := range uint64(48) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				s := &simulation{
					fleet: f, random: rand.New(rand.NewPCG(seed, 1)), missed: []Missed{Skip, RunOnce, RunAll}[seed%3],
					works: map[string]*works{}, end: time.Now().Add(simulated),
				}
				s.run()
			})
		})
	}
}

const (
	simulated = 40 * time.Minute // of virtual time
	kept      = 10 * time.Minute // for answers
)

// A simulation is several machines, each of which is replaced when it crashes.
type simulation struct {
	*fleet
	random *rand.Rand
	missed Missed
	end    time.Time
	looks  *stile.Client // without trouble
	all    sync.WaitGroup

	mu    sync.Mutex
	works map[string]*works // by tick, or by key
	done  int               // answers and ticks
	dead  int               // crashed machines
}

// A works is the runs for a tick or a key.
type works struct {
	now   *work
	last  int64     // last token
	over  bool      // the store's record says that the tick's run has returned
	text  string    // the kept answer
	since time.Time // when it was surely kept, since its run knows this
	until time.Time // when it is no longer kept
}

// A work is one run.
type work struct {
	on  *machine
	ctx context.Context
}

// A machine can crash: afterwards none of its requests reaches the store.
type machine struct {
	client *stile.Client
	d      *memory.Driver
	ctx    context.Context
	crash  context.CancelFunc
	dead   atomic.Bool
}

func (s *simulation) own() *rand.Rand { return rand.New(rand.NewPCG(s.random.Uint64(), 1)) }

func (s *simulation) on() bool { return time.Now().Before(s.end) }

func (s *simulation) run() {
	s.looks = s.machine()
	machines := make([]*machine, 3)
	for i := range machines {
		machines[i] = s.start()
	}
	for s.on() {
		s.pass(time.Duration(s.random.IntN(20_000)) * time.Millisecond)
		i := s.random.IntN(len(machines))
		if s.random.IntN(8) == 0 {
			s.die(machines[i])
			machines[i] = s.start()
			continue
		}
		s.makeTrouble(machines[i].d)
	}
	for _, m := range machines {
		m.d.Heal()
	}
	s.all.Wait()
	for _, m := range machines {
		m.client.Close()
	}
	if s.done < 20 || s.dead == 0 {
		s.Errorf("%d ticks and answers, %d crashes: the run shows nothing", s.done, s.dead)
	}
}

// makeTrouble makes trouble for the requests of a machine, or crashes it.
func (s *simulation) makeTrouble(d *memory.Driver) {
	late := time.Duration(s.random.IntN(7000)) * time.Millisecond
	times := 1 + s.random.IntN(3)
	switch s.random.IntN(10) {
	case 0:
		d.SetLink([]memory.Link{memory.Unnotified, memory.Refused, memory.Silent}[s.random.IntN(3)])
	case 1:
		d.Inject(memory.Fault{Times: times, Lose: true})
	case 2:
		d.Inject(memory.Fault{Times: times, Drop: true})
	case 3:
		d.Inject(memory.Fault{Times: times, Before: late, Late: s.random.IntN(2) == 0})
	case 4:
		d.Inject(memory.Fault{Times: times, After: late})
	default:
		d.Heal()
	}
}

// start adds a machine, with the job and two callers of Once.
func (s *simulation) start() *machine {
	m := &machine{d: s.store.Driver()}
	m.ctx, m.crash = context.WithCancel(s.ctx)
	c, err := stile.New(m.d, nil)
	if err != nil {
		s.Fatal(err)
	}
	m.client = c
	jitter := time.Duration(s.random.IntN(3)) * time.Second
	mine := s.own()
	j, err := New(c, "nightly", "@every 1m", func(ctx context.Context) error {
		_, err := s.work(ctx, m, named(Tick(ctx)), s.take(mine))
		return err
	}, &Options{Missed: s.missed, Jitter: jitter, AtLeast: 5 * time.Second, Report: s.hear})
	if err != nil {
		s.Fatal(err)
	}
	ctx, stop := context.WithDeadline(m.ctx, s.end)
	s.all.Go(func() {
		defer stop()
		if err := j.Run(ctx); ctx.Err() == nil {
			s.Errorf("Run: %v", err)
		}
	})
	for range 2 {
		mine := s.own()
		s.all.Go(func() {
			for m.ctx.Err() == nil && s.on() {
				s.pass(time.Duration(mine.IntN(20_000)) * time.Millisecond)
				s.callOnce(m, mine)
			}
		})
	}
	return m
}

// hear gets a tick's result, and reads the store's record of the job.
func (s *simulation) hear(Result) {
	p, err := Last(s.ctx, s.looks, "nightly")
	if err != nil {
		s.Errorf("a client that nothing befalls: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.works[named(p.Tick)]; p.Over && w != nil && !w.over {
		w.over = true
		s.done++
	}
}

// named returns the name of a tick in the reports.
func named(tick time.Time) string { return tick.UTC().Format("15:04") }

// die crashes a machine. Its client is closed so that its goroutines end, which does not reach the store.
func (s *simulation) die(m *machine) {
	s.mu.Lock()
	s.dead++
	s.mu.Unlock()
	m.dead.Store(true)
	m.d.SetLink(memory.Silent)
	m.crash()
	m.client.Close()
}

// take returns how long a run takes: sometimes longer than it may.
func (s *simulation) take(r *rand.Rand) time.Duration {
	if r.IntN(8) == 0 {
		return time.Duration(r.IntN(150)) * time.Second
	}
	return time.Duration(r.IntN(10)) * time.Second
}

// callOnce makes one of several calls of Once.
func (s *simulation) callOnce(m *machine, r *rand.Rand) {
	key := fmt.Sprint("key ", r.IntN(4))
	call, long, fails := Once(m.client, key, kept), time.Duration(r.IntN(30))*time.Second, r.IntN(6) == 0
	do := call.Do
	if r.IntN(3) == 0 {
		do = call.Try
	}
	ctx, cancel := context.WithTimeout(m.ctx, time.Duration(r.IntN(120))*time.Second)
	defer cancel()
	asked := time.Now()
	var over time.Time
	a, err := do(ctx, func(ctx context.Context) (string, error) {
		text, err := s.work(ctx, m, key, long)
		if fails {
			err = errors.Join(err, errors.New("the bank is away"))
		}
		over = time.Now()
		return text, err
	})
	if err != nil || m.dead.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.works[key]
	if a.Text != fmt.Sprint(key, " under ", a.Ticket) {
		s.Errorf("%s: the answer of the run with token %d is %q", key, a.Ticket, a.Text)
	}
	if w.since.Before(asked) && time.Now().Before(w.until) && a.Text != w.text && !a.Here {
		s.Errorf("%s: the answer is %q; want %q, which is kept", key, a.Text, w.text)
	}
	if a.Here {
		s.done++
		w.text, w.since, w.until = a.Text, time.Now(), over.Add(kept)
	}
}

// work runs for a tick or a call of Once.
func (s *simulation) work(ctx context.Context, m *machine, of string, long time.Duration) (string, error) {
	if err := stile.FromContext(ctx).Check(); errors.Is(err, stile.ErrLost) && !m.dead.Load() {
		s.Errorf("%s: work begins without its lease: %v", of, err)
	}
	if ctx.Err() != nil { // the machine crashes
		return "", context.Cause(ctx)
	}
	token := stile.Token(ctx)
	this := &work{m, ctx}
	s.mu.Lock()
	w := s.works[of]
	if w == nil {
		w = &works{}
		s.works[of] = w
	}
	switch {
	case m.dead.Load():
	case w.now != nil && !w.now.on.dead.Load() && w.now.ctx.Err() == nil:
		s.Errorf("%s runs twice at once", of)
	case token <= w.last:
		s.Errorf("%s: a run has token %d after %d", of, token, w.last)
	case time.Now().Before(w.until):
		s.Errorf("%s runs again %v before its answer %q is no longer kept", of, time.Until(w.until), w.text)
	case !Tick(ctx).IsZero() && (w.over || s.missed == Skip && w.last > 0):
		s.Errorf("tick %s is run again", of)
	}
	w.now, w.last = this, token
	s.mu.Unlock()
	err := takes(long)(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.now == this {
		w.now = nil
	}
	return fmt.Sprint(of, " under ", token), err
}
