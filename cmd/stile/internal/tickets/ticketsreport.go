package tickets

import (
	"fmt"
	"strconv"
	"time"

	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/draw"
)

// A TicketsView is the outcome of stile demo tickets in JSON. Programs rely on the keys, all of which are always there.
type TicketsView struct {
	Processes int      `json:"processes"`
	Tickets   int      `json:"tickets"`
	Browsers  int      `json:"browsers"`
	Without   saleView `json:"without_lock"`
	With      saleView `json:"with_lock"`
}

// A saleView is one sale. Without a lock nobody waits, and there are no tokens.
type saleView struct {
	Sales  int            `json:"sales"`
	Twice  int            `json:"sold_more_than_once"` // so many tickets
	Each   []int          `json:"sold_by"`             // each seller
	P50    answer.Micros  `json:"p50_wait"`
	P99    answer.Micros  `json:"p99_wait"`
	First  string         `json:"first_token"`
	Last   string         `json:"last_token"`
	Rising bool           `json:"tokens_rise"`
	Looks  int            `json:"looks"`
	Torn   int            `json:"looks_at_a_half_made_sale"`
	Took   answer.Seconds `json:"took"`
}

func (d *ticketsDemo) view(free, locked *box) TicketsView {
	return TicketsView{d.processes, d.tickets, d.browsers, free.view(), locked.view()}
}

func (b *box) view() saleView {
	v := saleView{Sales: len(b.sales), Each: []int{}, First: "0", Last: "0", Rising: b.tokensRise(), Looks: b.seen.looks,
		Torn: b.seen.torn, Took: answer.SecondsOf(b.took)}
	v.Twice, _, _ = b.twice()
	for i := range b.pids {
		v.Each = append(v.Each, len(b.waits(i+1)))
	}
	waits := b.waits(0)
	v.P50, v.P99 = answer.MicrosOf(quantile(waits, 0.5)), answer.MicrosOf(quantile(waits, 0.99))
	if n := len(b.sales); n > 0 {
		v.First, v.Last = strconv.FormatInt(b.sales[0].token, 10), strconv.FormatInt(b.sales[n-1].token, 10)
	}
	return v
}

const (
	drawnSale    = 60 * time.Millisecond // of each sale
	drawnSellers = 6
)

// ticketsTimeline returns the picture: which seller sold when, at the beginning of each sale. Without a lock several sell
// at once.
func ticketsTimeline(free, locked *box) *draw.Timeline {
	t := &draw.Timeline{
		Title: "Who sold when, without a lock and with one", To: float64(drawnSale.Milliseconds()), Unit: "ms",
		Desc: fmt.Sprintf("The first %v of both sales. A seller is at work from the moment in which it reads how many tickets "+
			"are left until it "+
			"has noted the sale. Without a lock many are at work at once; with one only one is.", drawnSale),
	}
	for _, sale := range []struct {
		title string
		*box
		kind draw.Kind
	}{{"without lock", free, draw.Failed}, {"with lock", locked, draw.Held}} {
		for i := range min(len(sale.pids), drawnSellers) {
			lane := draw.Lane{Name: fmt.Sprintf("%s: seller %d", sale.title, i+1)}
			for _, s := range sale.sales {
				if s.seller == i+1 {
					lane.Spans = append(lane.Spans, draw.Span{From: sale.since(s.from), To: sale.since(s.to), Kind: sale.kind})
				}
			}
			t.Lanes = append(t.Lanes, lane)
		}
	}
	return t
}

// since returns a time in milliseconds since the first sale began.
func (b *box) since(at time.Time) float64 {
	first := b.sales[0].from
	for _, s := range b.sales {
		if s.from.Before(first) {
			first = s.from
		}
	}
	return float64(at.Sub(first).Microseconds()) / 1000
}
