//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// A bench is one run of the program.
type bench struct {
	arena   *arena
	server  *servertest.Server
	host    servertest.TB
	addr    string // the server's, and with commas those of the others
	far     string // the same over links
	tag     string // what names begin with
	dir     string // for files that children share
	rounds  int
	window  time.Duration // of what is counted by the thousand
	idle    time.Duration // of what happens a few times a second
	brief   bool          // what is many is less, for figures that mean little
	settle  time.Duration // after which what happens only at the beginning is over
	only    *regexp.Regexp
	profile string // folder for profiles of our own side; "" means none
	log     func(format string, args ...any)

	measures []*measure
	names    int
}

// What a run takes unless flags say otherwise.
const (
	usualRounds  = 3
	usualSeconds = 1.0
	usualIdle    = 10 * time.Second
	usualSettle  = time.Second
)

// A sample is what one row of a measure came to in one round, by the key of the column.
type sample map[string]float64

// A column is one figure of a measure.
type column struct {
	key, head string
	digits    int // after the point
}

// A row is one contender of a measure, or what contenders are compared with.
type row struct {
	name    string
	run     func() (sample, error)
	samples []sample // of each round
}

// A measure is one table.
type measure struct {
	key, title, about string
	slow              bool          // it takes long and varies little: about half as many rounds
	each              time.Duration // what a row takes in a round, about; 0 means a window, and what goes before
	columns           []column
	rows              []*row
}

// row returns the row with a name, or nil.
func (m *measure) row(name string) *row {
	if i := slices.IndexFunc(m.rows, func(r *row) bool { return r.name == name }); i >= 0 {
		return m.rows[i]
	}
	return nil
}

// values returns a figure in each round.
func (r *row) values(key string) []float64 {
	var v []float64
	for _, s := range r.samples {
		v = append(v, s[key])
	}
	return v
}

// roundsOf is how often a measure is taken.
func (b *bench) roundsOf(m *measure) int {
	if m.slow {
		return (b.rounds + 1) / 2
	}
	return b.rounds
}

// estimate is how long the measures that were asked for take, about, on a machine that does nothing else.
func (b *bench) estimate() (sum time.Duration) {
	const before = 300 * time.Millisecond // processes and clients begin
	for _, m := range b.measures {
		if !b.only.MatchString(m.key) {
			continue
		}
		each := m.each
		if each == 0 {
			each = b.window * 5 / 4
		}
		sum += time.Duration(b.roundsOf(m)*len(m.rows)) * (before + each)
	}
	return sum
}

// run takes all measures that were asked for, each in rounds: A B C, A B C.
func (b *bench) run() error {
	b.log("%s takes about %v", b.arena.heading(), b.estimate().Round(time.Second))
	for _, m := range b.measures {
		if !b.only.MatchString(m.key) {
			continue
		}
		rounds := b.roundsOf(m)
		for n := range rounds {
			b.log("%s, round %d of %d", m.title, n+1, rounds)
			for _, r := range m.rows {
				s, err := r.run()
				if err != nil {
					return fmt.Errorf("%s: %s: %w", m.key, r.name, err)
				}
				r.samples = append(r.samples, s)
				b.log("  %-16s %s", r.name, m.short(s))
			}
		}
	}
	return nil
}

// short puts a sample into one line.
func (m *measure) short(s sample) string {
	var parts []string
	for _, c := range m.columns {
		parts = append(parts, fmt.Sprintf("%s %s", c.head, grouped(s[c.key], c.digits)))
	}
	return strings.Join(parts, " · ")
}

// name returns a lock's name that was not used before.
func (b *bench) name() string {
	b.names++
	return fmt.Sprintf("bench-%s%d", b.tag, b.names)
}

// profileFile returns where a profile of a contender is written, or "".
func (b *bench) profileFile(measure string, c contender) string {
	if b.profile == "" || !strings.HasPrefix(c.name, ours) {
		return ""
	}
	name := measure + "-" + strings.NewReplacer(", ", "-").Replace(c.name)
	return filepath.Join(b.profile, name+".pprof")
}

// profiled runs f and writes a profile of the processor into a file, unless its name is empty.
func profiled(file string, f func() error) error {
	if file == "" {
		return f()
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := pprof.StartCPUProfile(out); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return f()
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
