//go:build unix

package leader

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/draw"
	"github.com/stilelock/stile/internal/phrase"
)

// A LeaderResult is the outcome of the demo, and in JSON what it prints. Programs rely on the keys, all of which are
// always there.
type LeaderResult struct {
	*succession `json:"-"`

	Lease    answer.Seconds `json:"lease"`
	Terms    []termView     `json:"terms"`
	Plain    leaderFileView `json:"without_guard"`
	Guarded  leaderFileView `json:"with_guard"` // zero if the store gives no tokens
	Nobody   answer.Seconds `json:"nobody_led"`
	Misnamed answer.Seconds `json:"observers_named_one_who_did_not_lead"`
	Doubled  answer.Seconds `json:"two_believed_to_lead"`
	Notes    []string       `json:"notes"`
	Took     answer.Seconds `json:"took"`
}

// A termView is a row of the table of terms.
type termView struct {
	Candidate int             `json:"candidate"`
	Token     string          `json:"token"`
	Led       answer.Seconds  `json:"led"` // until the fault, or the end of the demo
	Fault     Fault           `json:"fault"`
	Believed  answer.Seconds  `json:"believed_after_fault"` // how much longer the leader believed that it led
	Next      *answer.Seconds `json:"next_led_after"`       // null for the last
	Known     *answer.Seconds `json:"observers_knew_after"` // null if they never did
}

// A leaderFileView is the result for one file.
type leaderFileView struct {
	Writes  int `json:"writes"` // accepted writes
	Late    int `json:"late"`   // how many of these came late
	Refused int `json:"refused"`
	Value   int `json:"value"` // at the end: as many as writes if none is lost
	Lost    int `json:"lost"`
}

// result sums up the observations.
func (d *leaderDemo) result(s *succession, dir string) (*LeaderResult, error) {
	r := &LeaderResult{succession: s, Lease: answer.SecondsOf(d.ttl), Terms: []termView{},
		Notes: append([]string{}, s.notes...), Took: answer.SecondsOf(s.took)}
	for i := range s.terms {
		r.Terms = append(r.Terms, s.termView(i))
	}
	for _, w := range s.writes() {
		r.Plain.count(w, false)
		r.Guarded.count(w, true)
	}
	r.sumUp()
	var err error
	if r.Plain.Value, err = readCount(dir, plainFile); err != nil {
		return r, err
	}
	r.Plain.Lost = r.Plain.Writes - r.Plain.Value
	if s.tokenless {
		r.Guarded = leaderFileView{}
		return r, nil
	}
	r.Guarded.Value, err = readCount(dir, guardedFile)
	r.Guarded.Lost = r.Guarded.Writes - r.Guarded.Value
	return r, err
}

func (f *leaderFileView) count(w write, guarded bool) {
	if guarded && w.refused != "" {
		f.Refused++
		return
	}
	f.Writes++
	if w.late {
		f.Late++
	}
}

// writes returns all writes, term by term.
func (s *succession) writes() (all []write) {
	for _, t := range s.terms {
		all = append(all, t.writes...)
	}
	return all
}

// struck counts the leaders that a fault hit.
func (s *succession) struck() (n int) {
	for _, t := range s.terms {
		if t.fault != "" {
			n++
		}
	}
	return n
}

// end returns when a term really ended: the leader was hit or knew of the end, or the demo ended.
func (s *succession) end(t *term) time.Duration {
	if t.fault != "" {
		return t.struck
	}
	return cmp.Or(t.over, s.took)
}

func (s *succession) termView(i int) termView {
	t := s.terms[i]
	v := termView{Candidate: t.leader.Number, Token: strconv.FormatInt(t.token, 10), Led: answer.SecondsOf(s.end(t) - t.begun),
		Fault: t.fault}
	if over := cmp.Or(t.over, s.took); t.fault != "" {
		v.Believed = answer.SecondsOf(over - t.struck)
	}
	if i+1 < len(s.terms) {
		v.Next = new(answer.SecondsOf(s.terms[i+1].begun - s.end(t)))
	}
	for _, w := range s.views {
		if w.leader == t.who() && w.token == t.token {
			v.Known = new(answer.SecondsOf(max(0, w.at-t.begun)))
			break
		}
	}
	return v
}

func (t *term) who() string { return "candidate " + strconv.Itoa(t.leader.Number) }

// at returns for one moment the term that really led, how many leaders believed that they led, and whom the observers
// named.
func (s *succession) at(now time.Duration) (led *term, believed int, named string) {
	for _, t := range s.terms {
		if t.begun <= now && now < s.end(t) {
			led = t
		}
		asleep := t.fault == FaultStop && t.struck <= now && (t.resumed == 0 || now < t.resumed)
		if t.begun <= now && now < cmp.Or(t.over, s.took) && !asleep {
			believed++
		}
	}
	for _, v := range s.views {
		if v.at > now {
			break
		}
		named = v.leader
	}
	return led, believed, named
}

// sumUp goes through the run in steps of a millisecond: nobody could see anything shorter.
func (r *LeaderResult) sumUp() {
	const step = time.Millisecond
	var nobody, misnamed, doubled time.Duration
	if len(r.terms) == 0 {
		return
	}
	for now := r.terms[0].begun; now < r.took; now += step {
		led, believed, named := r.at(now)
		if led == nil {
			nobody += step
		}
		if named != "" && (led == nil || led.who() != named) {
			misnamed += step
		}
		if believed > 1 {
			doubled += step
		}
	}
	r.Nobody, r.Misnamed, r.Doubled = answer.SecondsOf(nobody), answer.SecondsOf(misnamed), answer.SecondsOf(doubled)
}

func (d *leaderDemo) print(r *LeaderResult) error {
	if d.JSON {
		return answer.JSON(d.Out, r, "  ")
	}
	var rows [][]string
	for i, t := range r.Terms {
		rows = append(rows, []string{
			"  " + strconv.Itoa(i+1), strconv.Itoa(t.Candidate), t.Token, secondsText(t.Led), cmp.Or(string(t.Fault),
				"still leads"), optionalText(t.Next), optionalText(t.Known),
		})
	}
	d.Say("")
	if err := answer.Table(d.Out, "  TERM\tCANDIDATE\tTOKEN\tLED FOR\tTHEN\tNEXT LED AFTER\tOBSERVERS KNEW AFTER",
		rows); err != nil {
		return err
	}
	d.Say("")
	if err := d.printFiles(r); err != nil {
		return err
	}
	d.Say("")
	d.Say("For %s nobody led. For %s the observers named one who no longer led: the store cannot know before the lease ends.",
		secondsText(r.Nobody), secondsText(r.Misnamed))
	if r.Doubled > 0 {
		d.Say("For %s two took themselves for the leader: one who is deposed, or was stopped, finds out a little later.",
			secondsText(r.Doubled))
	}
	d.Say("The file without a guard took %s, and lost %d of %d.", phrase.Plural(r.Plain.Late, "late write"), r.Plain.Lost,
		r.Plain.Writes)
	if !r.tokenless {
		d.Say("With the guard %s refused, and nothing was lost. What it said: %s", demo.Were(r.Guarded.Refused, "late write"),
			r.refusal())
	}
	for _, note := range r.Notes {
		d.Say("%s", note)
	}
	return nil
}

func (d *leaderDemo) printFiles(r *LeaderResult) error {
	head, views := "  \tWITHOUT GUARD", []leaderFileView{r.Plain}
	if !r.tokenless {
		head, views = head+"\tWITH GUARD", append(views, r.Guarded)
	}
	var rows [][]string
	for _, row := range []struct {
		name string
		cell func(f leaderFileView) int
	}{
		{"writes that the file took", func(f leaderFileView) int { return f.Writes }},
		{"late ones among them", func(f leaderFileView) int { return f.Late }},
		{"late ones that were refused", func(f leaderFileView) int { return f.Refused }},
		{"the number in the file", func(f leaderFileView) int { return f.Value }},
		{"writes that are lost", func(f leaderFileView) int { return f.Lost }},
	} {
		cells := []string{"  " + row.name}
		for _, f := range views {
			cells = append(cells, strconv.Itoa(row.cell(f)))
		}
		rows = append(rows, cells)
	}
	return answer.Table(d.Out, head, rows)
}

// refusal returns the guard's last refusal.
func (r *LeaderResult) refusal() (text string) {
	for _, w := range r.writes() {
		text = cmp.Or(w.refused, text)
	}
	return text
}

func secondsText(s answer.Seconds) string {
	return phrase.Rounded(time.Duration(float64(s) * float64(time.Second))).String()
}

// optionalText is empty for nil.
func optionalText(s *answer.Seconds) string {
	if s == nil {
		return ""
	}
	return secondsText(*s)
}

// timeline returns the picture: who led when, which fault hit, and what the guard refused.
func (r *LeaderResult) timeline() *draw.Timeline {
	t := &draw.Timeline{
		Title: "Who led, and who wrote late", From: 0, To: r.took.Seconds(), Unit: "s",
		Desc: fmt.Sprintf("The terms of %d candidates, with the faults that hit the leaders, whom an observer named, and the "+
			"writes: "+
			"%d were lost without a guard, and %d late ones refused with one.", candidates, r.Plain.Lost, r.Guarded.Refused),
	}
	for number := range candidates {
		lane := draw.Lane{Name: "candidate " + strconv.Itoa(number+1)}
		for _, term := range r.terms {
			if term.leader.Number == number+1 {
				r.mark(&lane, term)
			}
		}
		t.Lanes = append(t.Lanes, lane)
	}
	seen := draw.Lane{Name: "whom the observers named"}
	for i, v := range r.views {
		to := r.took
		if i+1 < len(r.views) {
			to = r.views[i+1].at
		}
		if v.leader != "" {
			seen.Spans = append(seen.Spans, draw.Span{From: v.at.Seconds(), To: to.Seconds(), Kind: draw.Store, Text: v.leader})
		}
	}
	t.Lanes = append(t.Lanes, seen)
	plain, guarded := draw.Lane{Name: "the file without a guard"}, draw.Lane{Name: "the file with a guard"}
	for _, w := range r.writes() {
		mark(&plain, w.at, w.late, "late write, taken")
		mark(&guarded, w.at, w.refused != "", "refused")
	}
	if t.Lanes = append(t.Lanes, plain); !r.tokenless {
		t.Lanes = append(t.Lanes, guarded)
	}
	return t
}

// mark puts a write into a lane, with a text only if something is wrong with it.
func mark(lane *draw.Lane, at time.Duration, bad bool, text string) {
	p := draw.Point{At: at.Seconds(), Kind: draw.Held}
	if bad {
		p.Kind, p.Text = draw.Failed, text
	}
	lane.Points = append(lane.Points, p)
}

// mark puts a term into the lane of its leader.
func (r *LeaderResult) mark(lane *draw.Lane, t *term) {
	span := func(from, to time.Duration, kind draw.Kind, text string) {
		lane.Spans = append(lane.Spans, draw.Span{From: from.Seconds(), To: to.Seconds(), Kind: kind, Text: text})
	}
	span(t.begun, r.end(t), draw.Held, "leads")
	over := cmp.Or(t.over, r.took)
	switch t.fault {
	case FaultKill:
		lane.Points = append(lane.Points, draw.Point{At: t.struck.Seconds(), Kind: draw.Failed, Text: "killed"})
	case FaultStop:
		span(t.struck, cmp.Or(t.resumed, over), draw.Paused, "stopped")
	case FaultDepose:
		span(t.struck, over, draw.Failed, "deposed")
	}
}
