package trial

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/phrase"
)

// A report has the findings of stile doctor.
type report struct {
	traits  driver.Traits
	lacking []driver.Trait  // the required traits that it lacks
	reads   []time.Duration // of each, the shortest first
	probe   *probing        // nil without --probe

	services []service // which serve the store; empty if the client asks the store itself
}

// stepMost is how far the store's clock may deviate from this machine's during the watch, in addition to the clock's steps.
const stepMost = 50 * time.Millisecond

// warnings returns the store's warnings, and the probe's.
func (r *report) warnings() []driver.Warning {
	t := r.traits
	warn(&t, r.services)
	if p := r.probe; p != nil && p.strays(t.Granularity) {
		t.Warn("a clock that is slewed, and not set", "The store's clock went %v farther than this machine's within %v.",
			p.drift.Round(time.Millisecond), clockFor)
	}
	if p := r.probe; p != nil && !p.rose && t.Fencing != driver.NoFencing {
		t.Unfit("", "Tokens did not rise from one lock to the next.")
	}
	return t.Warnings
}

// status returns the exit status of the findings.
func (r *report) status() int {
	code := 0
	for _, w := range r.warnings() {
		code = max(code, Warnings)
		if w.Unfit {
			code = Unfit
		}
	}
	if len(r.lacking) > 0 {
		code = Unfit
	}
	return code
}

// verdict returns the status in a word.
func (r *report) verdict() string { return [...]string{"fine", "warnings", "unfit"}[r.status()] }

// untested lists the parts that stile doctor did not try.
func (r *report) untested() []string {
	list := []string{"how locks and tokens come through a restart, a failover or a full memory"}
	switch {
	case r.probe == nil:
		list = append(list, "the right to write, how long a lock takes, and how the store's clock runs: stile doctor --probe")
	case !r.probe.told:
		list = append(list, "how the store's clock runs, since leases do not end by it, or the store does not tell")
	}
	return list
}

// write prints the report for a person.
func (r *report) write(w io.Writer) error {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", label, phrase.Printable(fmt.Sprintf(format, args...)))
	}
	t := r.traits
	line("verdict", "%s", r.verdict())
	line("store", "%s", t.Store)
	if t.Server != "" {
		line("server", "%s", t.Server)
	}
	for i := range r.services {
		line("service", "%s", r.services[i].answers())
	}
	line("good for", "%s", Purpose(t))
	line("locks", "%s", Kinds(t))
	line("tokens", "%s", tokens(t))
	line("restart", "%s", outlives(t.Restart))
	line("failover", "%s", outlives(t.Failover))
	line("leases", "%v to %v, ended by the clock of the %s", t.MinTTL, t.MaxTTL, t.Clock)
	asks, note := "ask again and again", "note"
	if len(r.services) > 0 {
		asks, note = "are told by the service, which asks again and again", "store's note"
	}
	line("waiters", "%s", map[string]string{"push": "are told when they hold", "poll": asks}[t.Wake])
	line("a read", "%s", spread(r.reads))
	if p := r.probe; p != nil {
		line("a lock", "%s, with its release", spread(p.locks))
		if p.told {
			line("its clock", "went %v farther than this machine's within %v", p.drift.Round(time.Millisecond), clockFor)
		}
	}
	for _, trait := range r.lacking {
		line("LACKING", "%s, which is required", trait)
	}
	for _, warning := range r.warnings() {
		label := "warning"
		if warning.Unfit {
			label = "UNFIT"
		}
		line(label, "%s", strings.TrimSuffix(warning.Text, "."))
		if warning.Mend != "" {
			line("", "better: %s", warning.Mend)
		}
	}
	for _, text := range t.Notes {
		line(note, "%s", strings.TrimSuffix(text, "."))
	}
	for _, what := range r.untested() {
		line("not tried", "%s", what)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func tokens(t driver.Traits) string {
	if t.Fencing == driver.NoFencing {
		return "none that a resource could compare"
	}
	return "rise " + t.Fencing.String()
}

func outlives(survives bool) string {
	if survives {
		return "claims survive it"
	}
	return "claims can be lost"
}

// spread describes the durations of a step.
func spread(took []time.Duration) string {
	return fmt.Sprintf("p50 %v, p99 %v, of %d", phrase.Tidy(percentile(took, 50)), phrase.Tidy(percentile(took, 99)), len(took))
}

// percentile returns a percentile of sorted times.
func percentile(took []time.Duration, part int) time.Duration {
	if len(took) == 0 {
		return 0
	}
	return took[(len(took)*part+99)/100-1]
}

// A ReportView is a report in JSON. Programs rely on the keys.
type ReportView struct {
	Verdict  string          `json:"verdict"` // fine, warnings or unfit
	Store    string          `json:"store"`
	Server   string          `json:"server"`   // product and version; empty if it does not report them
	Services []serviceView   `json:"services"` // the lock services of the URL; empty if it names the store itself
	Purpose  string          `json:"purpose"`  // correctness or saving work
	Traits   []string        `json:"traits"`   // the traits of --require that the store has
	Lacking  []string        `json:"lacking"`  // the required traits that it lacks
	MinTTL   answer.Seconds  `json:"min_ttl"`
	MaxTTL   answer.Seconds  `json:"max_ttl"`
	Clock    string          `json:"clock"`
	Read     spreadView      `json:"read"`
	Lock     *spreadView     `json:"lock"`  // null without --probe
	Drift    *answer.Seconds `json:"drift"` // null if it was not measured
	Warnings []warningView   `json:"warnings"`
	Notes    []string        `json:"notes"`
	NotTried []string        `json:"not_tried"`
}

type serviceView struct {
	Host   string `json:"host"`
	Serves bool   `json:"serves"`
}

type warningView struct {
	Text   string `json:"text"`
	Better string `json:"better"`
	Unfit  bool   `json:"unfit"`
}

type spreadView struct {
	P50   answer.Micros `json:"p50"`
	P99   answer.Micros `json:"p99"`
	Count int           `json:"count"`
}

func spreadOf(took []time.Duration) spreadView {
	return spreadView{answer.MicrosOf(percentile(took, 50)), answer.MicrosOf(percentile(took, 99)), len(took)}
}

// view returns the report for a program.
func (r *report) view() ReportView {
	t := r.traits
	v := ReportView{
		Verdict: r.verdict(), Store: t.Store, Server: t.Server, Services: []serviceView{}, Purpose: Purpose(t),
		Traits: []string{}, Lacking: []string{},
		MinTTL: answer.SecondsOf(t.MinTTL), MaxTTL: answer.SecondsOf(t.MaxTTL), Clock: t.Clock, Read: spreadOf(r.reads),
		Warnings: []warningView{}, Notes: append([]string{}, t.Notes...), NotTried: r.untested(),
	}
	for _, s := range r.services {
		v.Services = append(v.Services, serviceView{s.host, s.fail == nil})
	}
	for _, trait := range driver.Requirable() {
		if len(t.Lacks(trait)) == 0 {
			v.Traits = append(v.Traits, string(trait))
		}
	}
	for _, trait := range r.lacking {
		v.Lacking = append(v.Lacking, string(trait))
	}
	for _, w := range r.warnings() {
		v.Warnings = append(v.Warnings, warningView{w.Text, w.Mend, w.Unfit})
	}
	if p := r.probe; p != nil {
		v.Lock = new(spreadOf(p.locks))
		if p.told {
			v.Drift = new(answer.SecondsOf(p.drift))
		}
	}
	return v
}
