package tickets

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/draw"
	"github.com/stilelock/stile/internal/phrase"
)

// A ChaosView is the outcome of stile demo tickets --chaos in JSON. Programs rely on the keys, all of which are always
// there.
type ChaosView struct {
	Processes int            `json:"processes"`
	Tickets   int            `json:"tickets"`
	Browsers  int            `json:"browsers"`
	Lease     answer.Seconds `json:"lease"`
	Parts     []partView     `json:"parts"` // two in a store without tokens, else three
}

// A partView is one column of the table.
type partView struct {
	Part    string         `json:"part"`
	Sales   int            `json:"sales"`
	Twice   int            `json:"sold_more_than_once"` // so many tickets
	Late    int            `json:"sold_late"`           // the ticket that the stopped seller sold; 0 for none
	Refused []string       `json:"refused"`             // the guard's refusals of late sales
	Killed  int            `json:"killed"`              // a seller
	Next    answer.Seconds `json:"next_sale_after_kill"`
	Stopped int            `json:"stopped"` // a seller
	Pause   answer.Seconds `json:"stopped_for"`
	Others  int            `json:"sold_meanwhile"` // by others, while one was stopped
	Looks   int            `json:"looks"`
	Torn    int            `json:"looks_at_a_half_made_sale"`
	Took    answer.Seconds `json:"took"`
}

func (p *part) view() partView {
	twice, _, _ := p.twice()
	return partView{
		Part: p.title, Sales: len(p.sales), Twice: twice, Late: p.lateTicket, Refused: append([]string{}, p.refused...),
		Killed: sellerOf(p.killed), Next: answer.SecondsOf(p.following), Stopped: sellerOf(p.stopped),
		Pause:  answer.SecondsOf(p.stoppedFor()),
		Others: p.overtakers, Looks: p.seen.looks, Torn: p.seen.torn, Took: answer.SecondsOf(p.took),
	}
}

// sellerOf returns the number of the seller that a fault hit, or 0.
func sellerOf(a *demo.Process) int {
	if a == nil {
		return 0
	}
	return a.Number
}

// printChaos prints the results of the sales.
func (d *ticketsDemo) printChaos(parts []*part) error {
	if d.JSON {
		v := ChaosView{Processes: d.processes, Tickets: d.tickets, Browsers: d.browsers, Lease: answer.SecondsOf(d.ttl)}
		for _, p := range parts {
			v.Parts = append(v.Parts, p.view())
		}
		return answer.JSON(d.Out, v, "  ")
	}
	head := "  "
	for _, p := range parts {
		head += "\t" + strings.ToUpper(p.title)
	}
	var rows [][]string
	for _, row := range []struct {
		name string
		cell func(v partView, p *part) string
	}{
		{"sales", func(v partView, _ *part) string { return strconv.Itoa(v.Sales) }},
		{"tickets sold more than once", func(v partView, _ *part) string { return strconv.Itoa(v.Twice) }},
		{"late sales refused", func(v partView, _ *part) string { return strconv.Itoa(len(v.Refused)) }},
		{"next sale after the kill", func(_ partView, p *part) string { return phrase.Rounded(p.following).String() }},
		{"one seller was stopped for", func(_ partView, p *part) string { return phrase.Rounded(p.stoppedFor()).String() }},
		{"looks of browsers", func(v partView, _ *part) string { return strconv.Itoa(v.Looks) }},
		{"looks at a half-made sale", func(v partView, _ *part) string { return strconv.Itoa(v.Torn) }},
		{"all took", func(_ partView, p *part) string { return phrase.Rounded(p.took).String() }},
	} {
		cells := []string{"  " + row.name}
		for _, p := range parts {
			cells = append(cells, row.cell(p.view(), p))
		}
		rows = append(rows, cells)
	}
	d.Say("")
	if err := answer.Table(d.Out, head, rows); err != nil {
		return err
	}
	d.Say("")
	explainChaos(d, parts)
	return nil
}

// explainChaos explains the table in words.
func explainChaos(d *ticketsDemo, parts []*part) {
	if twice, worst, times := parts[0].twice(); twice > 0 {
		d.Say("Without a lock, %d of %d tickets were sold more than once, number %d to %d customers.", twice, d.tickets, worst,
			times)
	}
	locked := parts[1]
	if twice, _, _ := locked.twice(); twice > 0 {
		d.Say("With the lock, %d were: seller %d was stopped past its lease, sold ticket %d after %d sales of others, and "+
			"wrote that %d were left.",
			twice, sellerOf(locked.stopped), locked.lateTicket, locked.overtakers, locked.lateTicket-1)
	}
	for _, p := range parts[2:] {
		for _, text := range p.refused {
			d.Say("With lock and guard, the late sale was refused: %s.", text)
		}
		if p.firstTwice() == nil && p.unsold() == 0 {
			d.Say("With lock and guard, each of %d tickets was sold exactly once.", d.tickets)
		}
	}
}

// chaosTimeline returns the picture: which seller sold when, under the lock, in each of the parts, and which fault hit it.
func chaosTimeline(parts []*part) *draw.Timeline {
	t := &draw.Timeline{
		Title: "Who sold when, who was killed, and who wrote late", Unit: "s",
		Desc: "The sales with a lock, and then with lock and guard. One seller is killed while it holds: the next sale waits " +
			"for the end of its " +
			"lease. One is stopped past its lease right before it writes: without a guard it sells a ticket again, and with one " +
			"its write is refused.",
	}
	for _, p := range parts {
		t.To = max(t.To, p.took.Seconds())
		for _, number := range p.drawn() {
			t.Lanes = append(t.Lanes, p.lane(number))
		}
	}
	return t
}

// drawn returns the sellers in the picture: the sellers that a fault hit, and some others.
func (p *part) drawn() (numbers []int) {
	hit := []int{sellerOf(p.killed), sellerOf(p.stopped)}
	for number := 1; number <= len(p.pids); number++ {
		if number <= drawnSellers || slices.Contains(hit, number) {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

func (p *part) lane(number int) draw.Lane {
	lane := draw.Lane{Name: fmt.Sprintf("%s: seller %d", p.title, number)}
	for _, s := range p.sales {
		if s.seller == number {
			lane.Spans = append(lane.Spans,
				draw.Span{From: s.from.Sub(p.begun).Seconds(), To: s.to.Sub(p.begun).Seconds(), Kind: draw.Held})
		}
	}
	if number == sellerOf(p.killed) {
		lane.Points = append(lane.Points, draw.Point{At: p.killedAt.Seconds(), Kind: draw.Failed, Text: "killed"})
	}
	if number == sellerOf(p.stopped) {
		lane.Spans = append(lane.Spans,
			draw.Span{From: p.stoppedAt.Seconds(), To: p.goesOn.Seconds(), Kind: draw.Paused, Text: "stopped"})
		text := "sold again"
		if len(p.refused) > 0 {
			text = "refused"
		}
		lane.Points = append(lane.Points, draw.Point{At: p.goesOn.Seconds(), Kind: draw.Failed, Text: text})
	}
	return lane
}
