//go:build unix

package market

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/draw"
	"github.com/stilelock/stile/internal/phrase"
)

// A MarketView is the outcome in JSON. Programs rely on the keys, all of which are always there.
type MarketView struct {
	For  answer.Seconds `json:"for"` // how long each row traded
	Rows []cellView     `json:"rows"`
}

// A cellView is a row of the table.
type cellView struct {
	Listers int           `json:"listers"`
	Buyers  int           `json:"buyers"`
	Way     way           `json:"way"`
	Listed  int64         `json:"listed"`
	Bought  int64         `json:"bought"`
	Retries int64         `json:"retries"`
	Passed  int64         `json:"passed_over"` // another buyer had the item, or was about to
	Mean    answer.Micros `json:"mean_wait"`   // from one purchase of a buyer to the next
	P99     answer.Micros `json:"p99_wait"`
	Idle    int           `json:"bought_nothing"` // how many buyers
	Lost    int64         `json:"missing"`        // money and items
	Made    int64         `json:"from_nowhere"`
}

func (c *cell) view() cellView {
	v := cellView{
		Listers: c.Listers, Buyers: c.Buyers, Way: c.way, Listed: c.Listed, Bought: c.Bought, Retries: c.Retries, Passed: c.Passed,
		P99: answer.MicrosOf(c.Waits.Quantile(0.99)), Idle: c.idle, Lost: c.lost, Made: c.made,
	}
	if c.Bought > 0 {
		v.Mean = answer.MicrosOf(c.Total / time.Duration(c.Bought))
	}
	return v
}

func (d *marketDemo) print(cells []*cell) error {
	v := MarketView{For: answer.SecondsOf(d.each)}
	for _, c := range cells {
		v.Rows = append(v.Rows, c.view())
	}
	if d.JSON {
		return answer.JSON(d.Out, v, "  ")
	}
	var rows [][]string
	for i, c := range v.Rows {
		mix := ""
		if i%len(Ways) == 0 {
			mix = cells[i].String()
		}
		wait := func(s answer.Micros) string {
			if c.Bought == 0 {
				return "-"
			}
			return phrase.Tidy(time.Duration(math.Round(float64(s) * 1e9))).String()
		}
		rows = append(rows, []string{
			"  " +
				mix, string(c.Way), strconv.FormatInt(c.Listed, 10), strconv.FormatInt(c.Bought, 10), strconv.FormatInt(c.Retries, 10),
			wait(c.Mean), wait(c.P99),
		})
	}
	d.Say("")
	if err := answer.Table(d.Out, "  LISTERS/BUYERS\tWAY\tLISTED\tBOUGHT\tRETRIES\tMEAN WAIT\tP99 WAIT", rows); err != nil {
		return err
	}
	d.Say("")
	d.Say("A wait is the time from one purchase of a buyer to its next, with all tries in between.")
	last := v.Rows[len(v.Rows)-len(Ways):]
	d.Say("At %s, buyers without a lock had to try %s again for %s.", Mixes[len(Mixes)-1],
		phrase.Plural(int(last[0].Retries), "trade"),
		phrase.Plural(int(last[0].Bought), "purchase"))
	d.Say("With locks no trade had to be tried again, every buyer bought, and all money and items are there.")
	return nil
}

// timeline returns the picture: who held the one lock when, in the last row with one lock for all.
func (d *marketDemo) timeline(cells []*cell) *draw.Timeline {
	i := slices.IndexFunc(cells, func(c *cell) bool { return c.way == wayCoarse && c.mix == Mixes[len(Mixes)-1] })
	c := cells[i]
	begun, end := int64(0), int64(0)
	for _, h := range c.Holds {
		if begun == 0 || h.From < begun {
			begun = h.From
		}
	}
	for _, h := range c.Holds {
		end = max(end, min(h.To, begun+pictured.Microseconds()))
	}
	ms := func(at int64) float64 { return float64(at-begun) / 1000 }
	t := &draw.Timeline{
		Title: "Who traded when, with one lock for all", From: 0, To: max(ms(end), 1), Unit: "ms",
		Desc: fmt.Sprintf("The first %v in which %d listers and %d buyers trade under one lock. Nobody trades while another does.",
			pictured, c.Listers, c.Buyers),
	}
	for _, name := range slices.Concat(users("lister", c.Listers), users("buyer", c.Buyers)) {
		lane := draw.Lane{Name: name}
		for _, h := range c.Holds {
			if h.Who == name && h.From <= end {
				lane.Spans = append(lane.Spans, draw.Span{From: ms(h.From), To: ms(h.To), Kind: draw.Held})
			}
		}
		t.Lanes = append(t.Lanes, lane)
	}
	return t
}

// pictured is how much of a row is in the picture.
const pictured = 50 * time.Millisecond
