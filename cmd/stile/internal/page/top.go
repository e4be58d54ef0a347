package page

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stilelock/stile"
)

// A Top is the page of all names, the most contended first.
type Top struct {
	Queues []stile.Queue
	Now    time.Time
	Seen   bool
	Silent time.Time // when the store ceased to answer; zero if it answers
}

var topColumns = []column{
	{head: "NAME", least: 12, names: true}, {head: "HOLD"}, {head: "WAIT"}, {head: "LONGEST", drops: 3},
	{head: "FIRST", least: 12, drops: 4},
	{head: "SINCE", drops: 2}, {head: "LEASE", drops: 1},
}

// Contended sorts queues by the number of waiters, then by the longest wait, and then by name.
func Contended(queues []stile.Queue) {
	slices.SortStableFunc(queues, func(a, b stile.Queue) int {
		x, y := count(a), count(b)
		return cmp.Or(cmp.Compare(y.waiters, x.waiters), cmp.Compare(y.longest, x.longest), cmp.Compare(a.Name, b.Name))
	})
}

// counts are the counts of one queue.
type counts struct {
	holders, waiters int
	permits          int64
	longest          time.Duration // since the first waiter came
}

func count(q stile.Queue) (n counts) {
	for _, c := range q.Claims {
		if c.Holds || c.Left {
			if !c.Left {
				n.holders++
			}
			n.permits += c.Weight
			continue
		}
		n.waiters++
		n.longest = max(n.longest, c.Since)
	}
	return n
}

// List returns the names as a table of at most a number of columns, with its head first.
func List(queues []stile.Queue, columns int) []string {
	var rows [][]string
	for _, q := range queues {
		n := count(q)
		row := []string{q.Name, strconv.Itoa(n.holders), strconv.Itoa(n.waiters), "", "", "", ""}
		if q.Permits > 0 {
			row[1] = fmt.Sprintf("%d of %d", n.permits, q.Permits)
		}
		if n.waiters > 0 {
			row[3] = Short(n.longest)
		}
		if len(q.Claims) > 0 {
			first := q.Claims[0]
			row[4], row[5], row[6] = Who(first.Holder), Short(first.Since), Lease(first)
			if first.Left {
				row[4] = "nobody; kept after " + row[4]
			}
		}
		rows = append(rows, row)
	}
	return grid(topColumns, rows, columns)
}

// Lines returns the page for a terminal with these columns and rows.
func (t *Top) Lines(columns, rows int) []Line {
	wait := 0
	for _, q := range t.Queues {
		wait += count(q).waiters
	}
	head := Line{title(fmt.Sprintf("%d in use, %s", len(t.Queues), verb(wait, "wait")), t.Now, columns), Bold}
	switch {
	case !t.Silent.IsZero():
		head = Line{title("no answer since "+t.Silent.Format("15:04:05"), t.Now, columns), Bad}
	case !t.Seen:
		head.Text = title("looking", t.Now, columns)
	}
	lines := []Line{head, {}}
	room := rows - len(lines) - 2 // the head of the table, and the footer
	queues := t.Queues[:min(len(t.Queues), max(room, 0))]
	if len(queues) < len(t.Queues) && len(queues) > 0 {
		queues = queues[:len(queues)-1]
	}
	if len(queues) > 0 {
		for i, text := range List(queues, columns) {
			style := Bold
			switch {
			case i == 0:
			case count(queues[i-1]).waiters > 0:
				style = Warning
			default:
				style = Plain
			}
			lines = append(lines, Line{text, style})
		}
	}
	if more := len(t.Queues) - len(queues); more > 0 {
		lines = append(lines, Line{Cut(fmt.Sprintf("… and %d more", more), columns), Dim})
	}
	return ended(lines, columns, rows)
}

// ended fills a page with empty lines, or cuts it, and adds the footer.
func ended(lines []Line, columns, rows int) []Line {
	for len(lines) < rows-1 {
		lines = append(lines, Line{})
	}
	return append(lines[:max(rows-1, 0)], Line{Cut(footer, columns), Dim})
}
