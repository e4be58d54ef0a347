package model

import (
	"fmt"
	"math"
	"strings"
)

// FleetRate is how often per second a process of a fleet locks and unlocks a name that nobody else wants.
const FleetRate = 0.2

// seed is the seed of all simulations on the page.
const seed = 1

// Tables returns the tables of docs/evidence/scaling.md by their names: runs, costs, checks, fleet.
func Tables() (map[string]string, error) {
	var runs, costs, checks, fleet table
	runs.row("store", "server", "measured", "revision", "clients of the parts")
	runs.rule(4, 1)
	costs.row("store", "what", "processor of the server", "bytes in", "bytes out", "disk syncs", "connections", "memory")
	costs.rule(2, 6)
	checks.row("store", "processes", "processor, ms/s", "bytes in/s", "bytes out/s", "disk syncs/s", "connections", "memory, MB")
	checks.rule(1, 7)
	fleet.row("store", "breaks first, then", "processor, cores", "network, Mbit/s", "disk syncs/s", "connections", "memory, GB",
		"processes that one server bears", "servers", "all connect again in")
	fleet.rule(2, 8)
	for i := range Stores {
		s := &Stores[i]
		r, err := s.Record()
		if err != nil {
			return nil, err
		}
		revision := r.Revision
		if revision != "" {
			revision = "`" + revision + "`"
		}
		runs.row(s.Name, r.Server, r.Date, revision, number(float64(r.Few.Clients), 0)+" and "+number(float64(r.Many.Clients), 0))
		c := r.Costs()
		s.costRows(&costs, &c)
		for _, f := range r.Fleets {
			s.checkRow(&checks, &c, &f)
		}
		s.fleetRow(&fleet, &c, 100_000)
	}
	return map[string]string{"runs": runs.String(), "costs": costs.String(), "checks": checks.String(), "fleet": fleet.String()}, nil
}

// costRows writes the cost of each thing.
func (s *Store) costRows(t *table, c *Costs) {
	for _, thing := range []struct {
		what    string
		cost    Load
		lasting bool // it has connections and memory while it exists
	}{
		{"a client that does nothing, a second", c.Client, true},
		{"a held lock, a second", c.Held, true},
		{"a waiter, a second", c.Waiter, true},
		{"a lock and unlock", c.Pair, false},
	} {
		syncs := number(thing.cost.Syncs, 3)
		connections, memory := "", ""
		if thing.lasting {
			connections, memory = number(thing.cost.Connections, 1), number(thing.cost.Memory/1e3, 1)+" kB"
		}
		t.row(s.Name, thing.what, number(thing.cost.CPU*1e6, 1)+" µs", number(thing.cost.Received, 0), number(thing.cost.Sent, 0),
			syncs, connections, memory)
	}
	if c.Commit.Time > 0 {
		t.row(s.Name, "a sync, for all that was written during the last", number(c.Commit.CPU*1e6, 1)+" µs", "", "", "", "", "")
	}
}

// Tolerance is how far the simulation may be from the measurement, in processor, bytes and connections. The page marks
// larger differences.
const Tolerance = 0.20

// A figure is one figure of a fleet, as seen and as computed. A figure that the store does not report is below zero.
type figure struct {
	name           string
	seen, computed float64
	digits         int
	held           bool // must be within the tolerance
}

func figures(seen, computed *Load) []figure {
	return []figure{
		{"processor", seen.CPU * 1e3, computed.CPU * 1e3, 1, true},
		{"bytes in", seen.Received, computed.Received, 0, true},
		{"bytes out", seen.Sent, computed.Sent, 0, true},
		{"disk syncs", seen.Syncs, computed.Syncs, 1, false},
		{"connections", seen.Connections, computed.Connections, 0, true},
		{"memory", seen.Memory / 1e6, computed.Memory / 1e6, 1, false},
	}
}

// off returns the relative difference between computed and seen.
func (f *figure) off() float64 {
	if f.seen == f.computed { // both 0, for a store that has none
		return 0
	}
	return f.computed/f.seen - 1
}

func (f *figure) missed() bool { return f.held && !(math.Abs(f.off()) <= Tolerance) }

// checkRow writes a measured fleet beside the same fleet simulated.
func (s *Store) checkRow(t *table, c *Costs, f *Fleet) {
	r := Simulate(c, &Work{Processes: f.Clients, Rate: f.Rate, Cores: s.Cores}, seed)
	cells := []string{s.Name, number(float64(f.Clients), 0)}
	for _, one := range figures(&f.Seen, &r.Load) {
		cell := "–"
		if one.seen >= 0 {
			cell = number(one.seen, one.digits) + " : " + number(one.computed, one.digits)
		}
		if one.missed() {
			cell += fmt.Sprintf(" **missed**, %+.0f %%", one.off()*100)
		}
		cells = append(cells, cell)
	}
	t.row(cells...)
}

// fleetRow writes the needs of a number of processes.
func (s *Store) fleetRow(t *table, c *Costs, processes int) {
	w := Work{Processes: processes, Rate: FleetRate, Cores: s.Cores}
	load := Simulate(c, &w, seed).Load
	var scarce []string
	for _, use := range s.Limits.Shares(&load) {
		if use.Share > 1 {
			scarce = append(scarce, use.Name)
		}
	}
	t.row(s.Name, strings.Join(scarce, ", "), number(load.CPU, 1), number(max(load.Received, load.Sent)*8/1e6, 0),
		number(load.Syncs, 0), number(load.Connections, 0), number(load.Memory/1e9, 1),
		number(float64(s.Limits.Most(c, FleetRate)), 0), number(float64(s.Limits.Divided(c, &w)), 0),
		number(float64(processes)*c.Open/float64(s.Cores), 0)+" s")
}

// A table is a table in Markdown.
type table struct{ strings.Builder }

func (t *table) row(cells ...string) { fmt.Fprintf(t, "| %s |\n", strings.Join(cells, " | ")) }

// rule writes the rule below the head, for columns of words and then of numbers.
func (t *table) rule(words, numbers int) {
	fmt.Fprintf(t, "|%s%s\n", strings.Repeat(" --- |", words), strings.Repeat(" ---: |", numbers))
}

// number formats a number with so many digits after the point and commas before it. A number below zero is unknown.
func number(v float64, digits int) string {
	if v < 0 || math.IsNaN(v) {
		return "–"
	}
	text := fmt.Sprintf("%.*f", digits, v)
	whole, rest, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest == "" {
		return whole
	}
	return whole + "." + rest
}
