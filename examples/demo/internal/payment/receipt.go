//go:build unix

package payment

import (
	"strconv"
	"strings"

	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/phrase"
)

// A PaymentView is the outcome in JSON. Programs rely on the keys, all of which are always there.
type PaymentView struct {
	Orders    int            `json:"orders"`
	Processes int            `json:"processes"`
	Lease     answer.Seconds `json:"lease"`
	StoppedAt int            `json:"stopped_at"` // the order at whose write a process was stopped
	KilledAt  int            `json:"killed_at"`  // likewise for a kill; 0 for none
	Columns   []columnView   `json:"columns"`    // without a lock, with one, with a guard, and in a transaction
	Notes     []string       `json:"notes"`
}

// A columnView is one column of the table.
type columnView struct {
	Column    string         `json:"column"`
	Callbacks int            `json:"callbacks"`
	Once      int            `json:"charged_once"`
	Twice     []int          `json:"charged_twice"` // the orders that were charged more than once
	Open      []int          `json:"not_charged"`
	Price     int            `json:"price"` // of all orders
	Taken     int            `json:"taken"`
	Refused   []string       `json:"refused"` // the guard's refusals of late writes
	Killed    int            `json:"killed"`  // processes
	Stopped   answer.Seconds `json:"stopped"` // how long the process was stopped
	Took      answer.Seconds `json:"took"`
}

// print prints the results of the payments.
func (p *payment) print(columns []*column) error {
	if p.JSON {
		return p.printJSON(columns)
	}
	head := "  "
	for _, c := range columns {
		head += "\t" + strings.ToUpper(c.title)
	}
	var rows [][]string
	for _, row := range []struct {
		name string
		cell func(c *column) string
	}{
		{"callbacks", func(c *column) string { return strconv.Itoa(c.callbacks) }},
		{"orders charged once", func(c *column) string { return strconv.Itoa(c.once) }},
		{"orders charged more than once", func(c *column) string { return strconv.Itoa(len(c.twice)) }},
		{"price of all orders", func(c *column) string { return strconv.Itoa(c.price) }},
		{"money taken", func(c *column) string { return strconv.Itoa(c.taken) }},
		{"taken too much", func(c *column) string { return strconv.Itoa(c.taken - c.price) }},
		{"late writes refused", func(c *column) string { return strconv.Itoa(len(c.refused)) }},
		{"processes killed", func(c *column) string { return strconv.Itoa(c.killed) }},
		{"one process was stopped for", func(c *column) string { return phrase.Rounded(c.paused).String() }},
		{"all took", func(c *column) string { return phrase.Rounded(c.took).String() }},
	} {
		cells := []string{"  " + row.name}
		for _, c := range columns {
			cells = append(cells, row.cell(c))
		}
		rows = append(rows, cells)
	}
	p.Say("")
	if err := answer.Table(p.Out, head, rows); err != nil {
		return err
	}
	p.Say("")
	p.explain(columns)
	return nil
}

// explain explains the table in words.
func (p *payment) explain(columns []*column) {
	free, locked := columns[0], columns[1]
	if n := len(free.twice); n > 0 {
		p.Say("Without a lock, %d of %d orders were charged more than once.", n, free.orders)
	}
	for _, order := range locked.twice {
		p.Say("With the lock, order %d was: its holder was stopped past the lease, and wrote after the next holder.", order)
	}
	for _, c := range columns[2:] {
		if c.way == payInTx {
			p.Say("With the lock in the transaction, others waited for order %d while its holder was stopped for %v, past any "+
				"lease: each of %d orders "+
				"was charged exactly once.", c.stopAt, phrase.Rounded(c.paused), c.orders)
			continue
		}
		for _, text := range c.refused {
			p.Say("With lock and guard, the late write was refused: %s.", strings.TrimPrefix(text, "guard: "))
		}
		if len(c.twice) == 0 && len(c.open) == 0 {
			p.Say("With lock and guard, each of %d orders was charged exactly once.", c.orders)
		}
	}
}

func (p *payment) printJSON(columns []*column) error {
	v := PaymentView{Orders: p.orders, Processes: p.processes, Lease: answer.SecondsOf(p.ttl), StoppedAt: p.stopAt(),
		KilledAt: p.killAt(), Notes: []string{}}
	if !p.guarded {
		v.Notes = append(v.Notes, demo.NoTokens)
	}
	for _, c := range columns {
		v.Columns = append(v.Columns, columnView{
			Column: c.title, Callbacks: c.callbacks, Once: c.once,
			Twice: append([]int{}, c.twice...), Open: append([]int{}, c.open...),
			Price: c.price, Taken: c.taken, Refused: append([]string{}, c.refused...),
			Killed: c.killed, Stopped: answer.SecondsOf(c.paused), Took: answer.SecondsOf(c.took),
		})
	}
	return answer.JSON(p.Out, v, "  ")
}
