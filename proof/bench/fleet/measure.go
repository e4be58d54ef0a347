//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/proof/bench/fleet/model"
	"github.com/stilelock/stile/proof/bench/internal/system"
)

const (
	mostChildren = 16
	partsRate    = 1.0 // locks and unlocks of a client per second, when nothing else is measured
)

// A measurement is one run on one server.
type measurement struct {
	store  *store
	place  *place
	rounds int // how often everything is measured

	revision string        // of stile
	span     time.Duration // of each measurement
	settle   time.Duration // before it
	log      func(format string, args ...any)
}

// measure starts servers and fleets of clients in rounds. After each round it passes on the results so far: the median of
// each figure.
func measure(h *servertest.Host, s *store, parts, sizes []int, m *measurement, done func(*model.Record) error) error {
	m.store = s
	var rounds []model.Record
	for range m.rounds {
		r := model.Record{Store: s.key}
		for i, p := range []*model.Parts{&r.Few, &r.Many} {
			p.Clients, p.Rate = parts[i], partsRate
			m.place = s.start(h)
			r.Server = s.about(m.place)
			err := m.parts(p)
			m.place.kill()
			if err != nil {
				return err
			}
		}
		for _, n := range sizes {
			m.place = s.start(h)
			f := model.Fleet{Clients: n, Rate: model.FleetRate}
			err := m.fleet(&f)
			m.place.kill()
			if err != nil {
				return err
			}
			r.Fleets = append(r.Fleets, f)
		}
		rounds = append(rounds, r)
		if err := done(model.Median(rounds)); err != nil {
			return err
		}
	}
	return nil
}

// spread returns the time over which requests of claims are spread: the time between two renewals, or the measurement
// itself if that is shorter.
func (m *measurement) spread() time.Duration { return min(m.span, 5*time.Second) }

// parts measures one kind of work after the other, with the same clients.
func (m *measurement) parts(p *model.Parts) (err error) {
	if p.Empty, err = m.load("nobody", 0); err != nil {
		return err
	}
	before, err := m.cpu()
	if err != nil {
		return err
	}
	f, err := m.open(p.Clients)
	defer f.end()
	if err != nil {
		return err
	}
	after, err := m.cpu()
	if err != nil {
		return err
	}
	p.Opening = spent(before, after)
	if err := m.warm(f, p.Clients); err != nil {
		return err
	}
	time.Sleep(m.store.rest)
	p.CalmRate = p.Rate / 8
	// Clients that have waited go on listening for a while, so waiting comes last.
	for _, step := range []struct {
		what   string
		into   *model.Load
		orders []order
	}{
		{"idle", &p.Idle, nil},
		{"holding", &p.Holding, []order{{Do: "hold", Spread: m.spread()}}},
		{"locking", &p.Locking, []order{{Do: "lock", Rate: p.Rate}}},
		{"calm", &p.Calm, []order{{Do: "lock", Rate: p.CalmRate}}},
		{"waiting", &p.Waiting, []order{{Do: "lead"}, {Do: "wait", Spread: m.spread()}}},
		{"together", &p.Together, m.together(model.FleetRate)},
	} {
		if err := f.tell(step.orders...); err != nil {
			return err
		}
		if step.into == &p.Holding || step.into == &p.Waiting {
			time.Sleep(m.spread()) // until each has asked once more: the first time, some clients prepare later requests
		}
		if *step.into, err = m.load(step.what, p.Clients); err != nil {
			return err
		}
		if err := f.tell(order{Do: "rest"}); err != nil {
			return err
		}
	}
	return nil
}

// fleet measures clients that do everything at once.
func (m *measurement) fleet(into *model.Fleet) error {
	f, err := m.open(into.Clients)
	defer f.end()
	if err != nil {
		return err
	}
	if err := m.warm(f, into.Clients); err != nil {
		return err
	}
	if err := f.tell(m.together(into.Rate)...); err != nil {
		return err
	}
	if into.Seen, err = m.load("a fleet", into.Clients); err != nil {
		return err
	}
	return f.tell(order{Do: "rest"})
}

// together returns the orders that make the clients do everything at once.
func (m *measurement) together(rate float64) []order {
	return []order{{Do: "hold", Spread: m.spread()}, {Do: "lead"}, {Do: "wait", Spread: m.spread()}, {Do: "lock", Rate: rate}}
}

// A fleet is the processes with the clients.
type fleet []*child

// open connects a number of clients, in a few processes.
func (m *measurement) open(clients int) (fleet, error) {
	var f fleet
	of := min(mostChildren, (clients+model.Group-1)/model.Group)
	for i := range of {
		first, next := clients*i/of, clients*(i+1)/of
		c, err := startChild(&task{URL: m.place.url, First: first, Count: next - first})
		if err != nil {
			return f, err
		}
		f = append(f, c)
	}
	return f, f.tell(order{Do: "open"})
}

// warm makes each client lock once, and warms up a server that becomes faster with use.
func (m *measurement) warm(f fleet, clients int) error {
	if err := f.tell(order{Do: "warm"}); err != nil || m.store.heat == 0 {
		return err
	}
	if err := f.tell(order{Do: "lock", Rate: 500 / float64(clients)}); err != nil {
		return err
	}
	time.Sleep(m.store.heat)
	return f.tell(order{Do: "rest"})
}

// tell gives orders to all children and waits until all have obeyed.
func (f fleet) tell(orders ...order) error {
	for _, o := range orders {

		for _, c := range f {
			if err := c.in.Encode(o); err != nil {
				return fmt.Errorf("%s: %w", o.Do, err)
			}
		}
		var errs []error
		for _, c := range f {
			var said string
			if err := c.out.Decode(&said); err != nil {
				errs = append(errs, fmt.Errorf("%s: a process ended: %w", o.Do, err))
			} else if said != "" {
				errs = append(errs, fmt.Errorf("%s: %s", o.Do, said))
			}
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

func (f fleet) end() {
	for _, c := range f {
		c.end()
	}
}

// cpu returns the processor seconds of the server's processes so far.
func (m *measurement) cpu() (map[int]float64, error) {
	pids, err := m.pids()
	if err != nil {
		return nil, err
	}
	return system.Worked(pids)
}

// pids returns the processes that are measured: the server's, or for a file the clients'.
func (m *measurement) pids() ([]int, error) {
	if len(m.place.servers) > 0 {
		return system.Family(m.place.servers[0].Pid())
	}
	all, err := system.Family(os.Getpid())
	return all[min(1, len(all)):], err
}

// spent adds up the work of processes since an earlier look. New processes began after that look.
func spent(before, after map[int]float64) (sum float64) {
	for pid, t := range after {
		sum += t - before[pid]
	}
	return sum
}

// load measures the server for a while.
func (m *measurement) load(what string, clients int) (model.Load, error) {
	l := model.Load{Syncs: -1}
	time.Sleep(m.settle)
	from, err := m.look()
	if err != nil {
		return l, err
	}
	time.Sleep(m.span)
	to, err := m.look()
	if err != nil {
		return l, err
	}
	seconds := to.when.Sub(from.when).Seconds()
	l.CPU = spent(from.cpu, to.cpu) / seconds
	l.Received, l.Sent = to.net.Since(from.net)
	l.Received, l.Sent = l.Received/seconds, l.Sent/seconds
	if m.store.syncs != nil {
		l.Syncs = (to.syncs - from.syncs) / seconds
	}
	l.Connections, l.Memory = float64(len(to.net)), to.memory
	m.log("%5d clients, %-8s cpu %7.2f ms/s, in %8.0f B/s, out %8.0f B/s, syncs %6.1f/s, connections %6.0f, memory %6.1f MB",
		clients, what, l.CPU*1e3, l.Received, l.Sent, l.Syncs, l.Connections, l.Memory/1e6)
	return l, nil
}

// A glance is a state of the server's counters and resources.
type glance struct {
	when   time.Time
	cpu    map[int]float64
	net    system.Traffic
	syncs  float64
	memory float64
}

func (m *measurement) look() (g glance, err error) {
	pids, err := m.pids()
	if err != nil {
		return g, err
	}
	if m.store.syncs != nil {
		if g.syncs, err = m.store.syncs(m.place); err != nil {
			return g, err
		}
	}
	for _, s := range m.place.servers[:min(1, len(m.place.servers))] {
		if g.net, err = system.Connections(s.Ports[0]); err != nil {
			return g, err
		}
	}
	if m.store.bytes == nil {
		g.memory = system.Resident(pids)
	} else if g.memory, err = m.store.bytes(m.place); err != nil {
		return g, err
	}
	g.when = time.Now()
	g.cpu, err = system.Worked(pids)
	return g, err
}
