package trial

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile/cmd/stile/internal/bench"
	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/draw"
	"github.com/stilelock/stile/internal/phrase"
)

// A benchReport has the findings of stile bench.
type benchReport struct {
	*benchmark
	addresses []string // of the stores, without passwords
	begun     time.Time
	result    *bench.Result
	failed    error // nil if everything was measured
}

// publish prints the report, and draws it.
func (r *benchReport) publish(out io.Writer) error {
	var err error
	if r.json {
		err = answer.JSON(out, r.view(), "  ")
	} else {
		err = r.write(out)
	}
	if err != nil || r.svg.Path == "" {
		return err
	}
	picture, err := r.picture()
	if err != nil {
		return err
	}
	return r.svg.Write(picture)
}

func ratioText(a, b int) string { return strconv.Itoa(a) + " of " + strconv.Itoa(b) }

// store names one of the stores.
func (r *benchReport) store(i int) string {
	t := r.result.Traits[i]
	text := r.addresses[i] + "  " + t.Store
	if t.Server != "" {
		text += ", " + t.Server
	}
	return phrase.Printable(text)
}

// write prints the report for a person.
func (r *benchReport) write(w io.Writer) error {
	var b strings.Builder
	two := len(r.addresses) == 2
	for i := range r.addresses {
		if two {
			fmt.Fprintf(&b, "%d  ", i+1)
		}
		fmt.Fprintln(&b, r.store(i))
	}
	fmt.Fprintf(&b, "%s of %v for each scenario\n\n", phrase.Plural(r.rounds, "round"), time.Duration(r.window))
	head, rows := "SCENARIO\tTIMES/s\tp50\tp99\tLONGEST", [][]string{}
	if two {
		head = "SCENARIO\tSTORE\tTIMES/s\tp50\tp99\tLONGEST"
	}
	for i := range r.result.Rows {
		rows = append(rows, r.rows(&r.result.Rows[i])...)
	}
	if err := answer.Table(&b, head, rows); err != nil {
		return err
	}
	fmt.Fprintln(&b)
	for _, row := range r.result.Rows {
		fmt.Fprintf(&b, "%-9s %s\n", row.Key, row.What)
	}
	if two {
		fmt.Fprintln(&b,
			"2 ÷ 1     what the second store came to for each of the first: the median of the rounds, the least and the most")
	}
	if r.failed != nil {
		fmt.Fprintln(&b, "\nNot everything was measured.")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// rows returns the rows of one scenario.
func (r *benchReport) rows(row *bench.Row) (rows [][]string) {
	two, key := len(row.Sides) == 2, row.Key
	for i, side := range row.Sides {
		cells := []string{key}
		if key = " "; two {
			cells = append(cells, strconv.Itoa(i+1))
		}
		rows = append(rows, append(cells, figures(side)...))
	}
	rate, p50 := row.Ratio(rateOf), row.Ratio(p50Of)
	if rate != nil || p50 != nil {
		rows = append(rows, []string{" ", "2 ÷ 1", rangeText(rate), rangeText(p50), " ", " "})
	}
	return rows
}

func rateOf(r bench.Round) float64 { return r.Rate }
func p50Of(r bench.Round) float64  { return float64(r.P50) }

// figures returns the figures of one scenario in one store, in cells.
func figures(s *bench.Side) []string {
	if s == nil {
		return []string{"no such locks", "", "", ""}
	}
	if s.Times.N == 0 {
		return []string{"", "", "", ""}
	}
	rate := ""
	if s.Rate() > 0 {
		rate = strconv.FormatFloat(s.Rate(), 'f', 0, 64)
	}
	return []string{rate, brief(s.Times.Quantile(0.5)).String(), brief(s.Times.Quantile(0.99)).String(),
		brief(s.Times.Most).String()}
}

// brief rounds a duration, unless it is shorter than a page can show.
func brief(d time.Duration) time.Duration {
	if d < 10*time.Microsecond {
		return d.Round(10 * time.Nanosecond)
	}
	return phrase.Tidy(d)
}

func rangeText(r *bench.Ratio) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%.3g (%.3g–%.3g)", r.Median, r.Least, r.Most)
}

// picture draws the medians, the 99th percentiles and the rates, in a panel for each scenario.
func (r *benchReport) picture() ([]byte, error) {
	b := &draw.Bars{Title: "stile bench: " + strings.Join(r.addresses, " and "), Desc: r.describe()}
	for _, row := range r.result.Rows {
		p := draw.Panel{Heading: row.Key + ": " + row.What + "; less is better"}
		for i, side := range row.Sides {
			if side == nil || side.Times.N == 0 {
				continue
			}
			name, kind := "", draw.Store
			if len(row.Sides) == 2 {
				name = strconv.Itoa(i+1) + ", "
			}
			if i == 1 {
				kind = draw.Waiting
			}
			for _, f := range []struct {
				what  string
				value time.Duration
			}{{"median", side.Times.Quantile(0.5)}, {"99th percentile", side.Times.Quantile(0.99)}} {
				text := brief(f.value).String()
				if rate := side.Rate(); rate > 0 && f.what == "median" {
					text = fmt.Sprintf("%s, %.0f/s", text, rate)
				}
				p.Bars = append(p.Bars, draw.Bar{Name: name + f.what, Value: float64(f.value), Text: text, Kind: kind})
			}
		}
		if len(p.Bars) > 0 {
			b.Panels = append(b.Panels, p)
		}
	}
	if len(b.Panels) == 0 {
		b.Panels = []draw.Panel{{Heading: "nothing was measured"}}
	}
	return b.SVG()
}

// describe describes the picture in words.
func (r *benchReport) describe() string {
	var text []string
	for _, row := range r.result.Rows {
		for i, side := range row.Sides {
			if side != nil && side.Times.N > 0 {
				text = append(text, fmt.Sprintf("%s on %s: median %v, 99th percentile %v.", row.Key, r.addresses[i],
					brief(side.Times.Quantile(0.5)), brief(side.Times.Quantile(0.99))))
			}
		}
	}
	if text == nil {
		return "Nothing was measured."
	}
	return strings.Join(text, " ")
}

// A BenchView is a report in JSON. Programs rely on the keys.
type BenchView struct {
	Complete  bool           `json:"complete"` // everything was measured
	Error     string         `json:"error"`    // the reason why not
	Begun     time.Time      `json:"begun"`
	Rounds    int            `json:"rounds"`
	Window    answer.Seconds `json:"window"`
	Stores    []benchStore   `json:"stores"`
	Scenarios []scenarioView `json:"scenarios"`
}

type benchStore struct {
	URL    string `json:"url"` // without a password
	Store  string `json:"store"`
	Server string `json:"server"`
}

type scenarioView struct {
	Scenario string      `json:"scenario"`
	What     string      `json:"what"`
	Results  []*sideView `json:"results"` // of each store; null if the store does not have such locks, or nothing was measured
	Rate     *ratioView  `json:"rate_ratio"`
	P50      *ratioView  `json:"p50_ratio"` // null for one store
}

type sideView struct {
	Count     int64        `json:"count"`
	Rate      *float64     `json:"rate"` // a second; null for a scenario with pauses
	P50       answer.Nanos `json:"p50"`
	P90       answer.Nanos `json:"p90"`
	P99       answer.Nanos `json:"p99"`
	P999      answer.Nanos `json:"p999"`
	Most      answer.Nanos `json:"longest"`
	Histogram []bucketView `json:"histogram"`
}

// A bucketView is the count of times near one value in seconds.
type bucketView struct {
	Time  answer.Nanos `json:"time"`
	Count int64        `json:"count"`
}

type ratioView struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

// view returns the report for a program.
func (r *benchReport) view() BenchView {
	v := BenchView{Complete: r.failed == nil, Begun: r.begun, Rounds: r.rounds,
		Window: answer.SecondsOf(time.Duration(r.window))}
	if r.failed != nil {
		v.Error = phrase.OneLine(r.failed.Error())
	}
	for i, t := range r.result.Traits {
		v.Stores = append(v.Stores, benchStore{r.addresses[i], t.Store, t.Server})
	}
	for i := range r.result.Rows {
		row := &r.result.Rows[i]
		s := scenarioView{Scenario: row.Key, What: row.What, Rate: ratioOf(row.Ratio(rateOf)), P50: ratioOf(row.Ratio(p50Of))}
		for _, side := range row.Sides {
			s.Results = append(s.Results, viewOfSide(side))
		}
		v.Scenarios = append(v.Scenarios, s)
	}
	return v
}

func viewOfSide(s *bench.Side) *sideView {
	if s == nil || s.Times.N == 0 {
		return nil
	}
	h := &s.Times
	v := &sideView{
		Count: h.N, P50: answer.NanosOf(h.Quantile(0.5)), P90: answer.NanosOf(h.Quantile(0.9)),
		P99:  answer.NanosOf(h.Quantile(0.99)),
		P999: answer.NanosOf(h.Quantile(0.999)), Most: answer.NanosOf(h.Most),
	}
	if rate := s.Rate(); rate > 0 {
		v.Rate = &rate
	}
	for d, n := range h.All() {
		v.Histogram = append(v.Histogram, bucketView{answer.NanosOf(d), n})
	}
	return v
}

func ratioOf(r *bench.Ratio) *ratioView {
	if r == nil {
		return nil
	}
	return &ratioView{r.Median, r.Least, r.Most}
}
