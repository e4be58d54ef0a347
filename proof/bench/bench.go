//go:build unix

package main

import (
	"errors"
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
	addr    string // the server's address, and after commas the other servers'
	far     string // the same over links
	tag     string // the beginning of lock names
	dir     string // for files that children share
	rounds  int
	window  time.Duration // how long fast things are measured
	idle    time.Duration // how long things are measured that happen a few times a second
	brief   bool          // fewer of everything, for figures that mean little
	settle  time.Duration // until everything that happens only at the beginning is over
	only    *regexp.Regexp
	profile string // folder for profiles of our own side; "" means none
	log     func(format string, args ...any)

	measures []*measure
	names    int
}

// The defaults of the flags.
const (
	usualRounds  = 3
	usualSeconds = 1.0
	usualIdle    = 10 * time.Second
	usualSettle  = time.Second
)

// A sample is one row's figures of one round, by the key of the column.
type sample map[string]float64

// A column is one figure of a measure.
type column struct {
	key, head string
	digits    int // digits after the point
}

// A row is a contender of a measure, or something that contenders are compared with.
type row struct {
	name    string
	run     func() (sample, error)
	samples []sample // of each round
}

// A measure is one table.
type measure struct {
	key, title, about string
	slow              bool          // it takes long and varies little, so it gets about half as many rounds
	each              time.Duration // how long a row takes in a round, roughly; 0 means the warm-up and a window
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

// roundsOf returns how many rounds a measure gets.
func (b *bench) roundsOf(m *measure) int {
	if m.slow {
		return (b.rounds + 1) / 2
	}
	return b.rounds
}

// estimate returns roughly how long the requested measures take on an idle machine.
func (b *bench) estimate() (sum time.Duration) {
	const before = 300 * time.Millisecond // processes and clients start
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

// run takes all requested measures in rounds: A B C, A B C.
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
				if errors.Is(err, errSilent) && !strings.HasPrefix(r.name, ours) {
					b.log("  %-16s %v; once more", r.name, err)
					s, err = r.run()
				}
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

// short returns a sample as one line.
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

// profileFile returns the file for a profile of a contender, or "".
func (b *bench) profileFile(measure string, c contender) string {
	if b.profile == "" || !strings.HasPrefix(c.name, ours) {
		return ""
	}
	name := measure + "-" + strings.NewReplacer(", ", "-").Replace(c.name)
	return filepath.Join(b.profile, name+".pprof")
}

// profiled runs f and writes a CPU profile into a file, unless its name is empty.
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
