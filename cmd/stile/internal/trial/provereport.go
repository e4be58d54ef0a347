package trial

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile/cmd/stile/internal/prove"
	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/histogram"
	"github.com/stilelock/stile/internal/phrase"
)

// publish prints the report, and writes the page.
func (p *proof) publish(out io.Writer, r *prove.Report) error {
	var err error
	if p.json {
		err = answer.JSON(out, p.view(r), "  ")
	} else {
		err = p.write(out, r)
	}
	if err != nil || p.html.Path == "" {
		return err
	}
	text, err := r.Page(p.address)
	if err != nil {
		return err
	}
	return p.html.Write(text)
}

// write prints the report for a person.
func (p *proof) write(w io.Writer, r *prove.Report) error {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "%-13s %s\n", label, phrase.Printable(phrase.OneLine(fmt.Sprintf(format, args...))))
	}
	line("verdict", "%s: %s", r.Verdict, r.Meaning())
	line("store", "%s  %s %s", p.address, r.Traits.Store, r.Traits.Server)
	line("run", "%d clients, leases of %v, faults for %v, seed %d", r.Workers, r.TTL, r.For, r.Seed)
	for _, text := range r.Findings {
		line("FOUND", "%s", text)
	}
	for _, text := range r.Why {
		line("INCONCLUSIVE", "%s", text)
	}
	for _, kind := range prove.Kinds {
		made, hit, _ := r.Counts(kind)
		line(string(kind), "hit %s", ratioText(hit, made))
	}
	for _, n := range r.Names {
		line(n.Name, "%s", nameText(r, &n))
	}
	line("late writes", "%s", writesText(r))
	for _, text := range r.Untested {
		line("not tested", "%s", text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func nameText(r *prove.Report, n *prove.Name) string {
	text := phrase.Plural(n.Holds, "hold") + ", waits p50 " + brief(n.Waits.Quantile(0.5)).String() + ", longest " +
		brief(n.Waits.Most).String()
	if n.HandOvers.N > 0 {
		text += ", hand-overs p50 " + brief(n.HandOvers.Quantile(0.5)).String() + ", longest " + brief(n.HandOvers.Most).String()
	}
	if r.Tokens() {
		text += ", tokens " + strconv.FormatInt(n.First, 10) + " to " + strconv.FormatInt(n.Last, 10)
	}
	return text
}

func writesText(r *prove.Report) string {
	text := fmt.Sprintf("without a guard %d of %d updates were lost", r.Control.Lost, r.Control.Count)
	if r.Tokens() {
		text += fmt.Sprintf("; guarded by the token %d of %d, and %d were refused", r.Guarded.Lost, r.Guarded.Count, r.Refused)
	}
	return text
}

// A ProofView is a report in JSON. Programs rely on the keys.
type ProofView struct {
	Verdict  string         `json:"verdict"` // passed, failed or inconclusive
	Findings []string       `json:"findings"`
	Why      []string       `json:"why"` // the reasons why it is inconclusive
	Untested []string       `json:"not_tested"`
	URL      string         `json:"url"` // without a password
	Store    string         `json:"store"`
	Server   string         `json:"server"`
	Begun    time.Time      `json:"begun"`
	Seed     string         `json:"seed"`
	Clients  int            `json:"clients"`
	TTL      answer.Seconds `json:"ttl"`
	For      answer.Seconds `json:"for"`
	Faults   []faultView    `json:"faults"`
	Names    []provenView   `json:"names"`
	Away     []awayView     `json:"store_away"`
	Control  writesView     `json:"unguarded"`
	Guarded  *writesView    `json:"guarded"` // null if the store gives no tokens
}

type faultView struct {
	Kind   string         `json:"kind"`
	Client int            `json:"client"` // from 1 on; 0 for all
	Begin  answer.Seconds `json:"begin"`  // since the run began
	End    answer.Seconds `json:"end"`
	Hit    bool           `json:"hit"`
	Why    string         `json:"why"` // the reason why it did not hit
}

type provenView struct {
	Name      string    `json:"name"`
	Holds     int       `json:"holds"`
	Waits     timesView `json:"waits"`
	HandOvers timesView `json:"hand_overs"`
	First     string    `json:"first_token"`
	Last      string    `json:"last_token"`
}

type timesView struct {
	Count     int64        `json:"count"`
	P50       answer.Nanos `json:"p50"`
	P99       answer.Nanos `json:"p99"`
	Most      answer.Nanos `json:"longest"`
	Histogram []bucketView `json:"histogram"`
}

type awayView struct {
	Begin answer.Seconds `json:"begin"`
	End   answer.Seconds `json:"end"`
	Error string         `json:"error"`
}

type writesView struct {
	Count   int64 `json:"count"`
	Lost    int64 `json:"lost"`
	Refused int   `json:"refused"`
}

// view returns the report for a program.
func (p *proof) view(r *prove.Report) ProofView {
	v := ProofView{
		Verdict: string(r.Verdict), Findings: safe(r.Findings), Why: safe(r.Why), Untested: safe(r.Untested),
		URL: p.address, Store: r.Traits.Store, Server: r.Traits.Server, Begun: r.Begun, Seed: strconv.FormatUint(r.Seed, 10),
		Clients: r.Workers, TTL: answer.SecondsOf(r.TTL), For: answer.SecondsOf(r.For), Faults: []faultView{}, Away: []awayView{},
		Control: writesView{r.Control.Count, r.Control.Lost, 0},
	}
	if r.Tokens() {
		v.Guarded = &writesView{r.Guarded.Count, r.Guarded.Lost, r.Refused}
	}
	for _, f := range r.Faults {
		v.Faults = append(v.Faults,
			faultView{string(f.Kind), f.Worker + 1, answer.SecondsOf(f.Begin), answer.SecondsOf(f.End), f.Hit, f.Why})
	}
	for _, n := range r.Names {
		v.Names = append(v.Names, provenView{
			n.Name, n.Holds, timesOf(&n.Waits), timesOf(&n.HandOvers), strconv.FormatInt(n.First, 10), strconv.FormatInt(n.Last, 10),
		})
	}
	for _, a := range r.Away {
		v.Away = append(v.Away, awayView{answer.SecondsOf(a.Begin), answer.SecondsOf(a.End), phrase.OneLine(a.Err)})
	}
	return v
}

// safe returns texts without secrets.
func safe(texts []string) []string {
	list := []string{}
	for _, text := range texts {
		list = append(list, phrase.OneLine(text))
	}
	return list
}

func timesOf(h *histogram.Histogram) timesView {
	v := timesView{Count: h.N, P50: answer.NanosOf(h.Quantile(0.5)), P99: answer.NanosOf(h.Quantile(0.99)),
		Most: answer.NanosOf(h.Most), Histogram: []bucketView{}}
	for d, n := range h.All() {
		v.Histogram = append(v.Histogram, bucketView{answer.NanosOf(d), n})
	}
	return v
}
