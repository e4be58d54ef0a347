package page

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/phrase"
)

// A Watch is the page of one name: its holders and waiters, and the changes.
type Watch struct {
	Queue   stile.Queue
	Now     time.Time
	Seen    bool      // the queue was seen
	Silent  time.Time // when the store ceased to answer; zero if it answers
	Changes []Change  // the newest last
}

var queueColumns = []column{
	{head: "STATE"}, {head: "OWNER", least: 10}, {head: "HOST", least: 8, drops: 3}, {head: "PID", drops: 2}, {head: "SINCE"},
	{head: "LEASE", drops: 4}, {head: "REASON", least: 12, drops: 1},
}

// Footer is the last line of a page, which says how to leave it.
const footer = "q ends"

// Lines returns the page for a terminal with these columns and rows.
func (w *Watch) Lines(columns, rows int) []Line {
	lines := []Line{
		{title(w.Queue.Name, w.Now, columns), Bold},
		{Cut(w.summary(), columns), Plain},
	}
	if !w.Silent.IsZero() {
		lines[1] = Line{Cut("the store does not answer since "+w.Silent.Format("15:04:05")+"; this is what was seen before",
			columns), Bad}
	}
	lines = append(lines, Line{})
	// The changes have a third of the page, the queue the rest.
	room := max(rows-len(lines)-1, 2)
	news := min(len(w.Changes), room/3)
	if len(w.Queue.Claims)+1 < room-news-1 {
		news = min(len(w.Changes), room-len(w.Queue.Claims)-2)
	}
	news = max(news, 0)
	if news > 0 {
		room -= news + 1
	}
	lines = append(lines, w.table(columns, room)...)
	if news > 0 {
		lines = append(lines, Line{})
		for i := range news {
			c := w.Changes[len(w.Changes)-1-i]
			lines = append(lines, Line{Cut(c.At.Format("15:04:05")+" "+c.Text(), columns), Dim})
		}
	}
	return ended(lines, columns, rows)
}

// title is a name, and the time at the right end of the line.
func title(name string, now time.Time, columns int) string {
	clock := now.Format("15:04:05")
	if columns < 24 {
		return middle(phrase.Printable(name), columns)
	}
	return pad(middle(phrase.Printable(name), columns-len(clock)-2), columns-len(clock)) + clock
}

func (w *Watch) summary() string {
	holders, waiters, permits := 0, 0, int64(0)
	for _, c := range w.Queue.Claims {
		if c.Holds {
			holders++
			permits += c.Weight
		} else {
			waiters++
		}
	}
	switch {
	case !w.Seen:
		return "looking"
	case holders+waiters == 0:
		return "free"
	case w.Queue.Permits > 0:
		return fmt.Sprintf("%d of %d permits taken, %s", permits, w.Queue.Permits, verb(waiters, "wait"))
	}
	return fmt.Sprintf("%s, %s", verb(holders, "hold"), verb(waiters, "wait"))
}

func verb(n int, word string) string {
	if n == 1 {
		return "1 " + word + "s"
	}
	return fmt.Sprintf("%d %s", n, word)
}

// table shows as many claims as fit, under a head.
func (w *Watch) table(columns, room int) []Line {
	claims := w.Queue.Claims
	if len(claims) == 0 {
		return nil
	}
	more := 0
	if len(claims)+1 > room {
		more = len(claims) - max(room-2, 0)
		claims = claims[:len(claims)-more]
	}
	var rows [][]string
	for _, c := range claims {
		rows = append(rows, cellsOfClaim(w.Queue, c))
	}
	var lines []Line
	for i, text := range grid(queueColumns, rows, columns) {
		style := Bold
		if i > 0 {
			style = styleOf(claims[i-1])
		}
		lines = append(lines, Line{text, style})
	}
	if more > 0 {
		lines = append(lines, Line{Cut(fmt.Sprintf("… and %d more", more), columns), Dim})
	}
	return lines
}

func cellsOfClaim(q stile.Queue, c stile.Claim) []string {
	h, what := c.Holder, state(c)
	switch {
	case q.Permits > 0:
		what += " " + strconv.FormatInt(c.Weight, 10)
	case c.Weight > 0:
		what += " shared"
	}
	owner := h.Owner
	if owner == "" {
		owner = h.Program
	}
	switch {
	case owner == "":
		owner = Value(h.Value)
	case h.Value != "":
		owner += " (" + Value(h.Value) + ")"
	}
	if h.Principal != "" {
		owner += " as " + h.Principal
	}
	pid := ""
	if h.PID != 0 {
		pid = strconv.Itoa(h.PID)
	}
	return []string{what, owner, h.Host, pid, Short(c.Since), Lease(c), h.Reason}
}

// Lease returns the rest of a claim's lease; "" if the store does not report it.
func Lease(c stile.Claim) string {
	switch {
	case c.Remaining == 0:
		return ""
	case c.Remaining < 0:
		return "run out"
	}
	if age := Unrenewed(c); age > 0 {
		return Short(c.Remaining) + ", not renewed for " + Short(age)
	}
	return Short(c.Remaining)
}

// Unrenewed returns how long a holder has gone without a renewal, if that is longer than a live holder does: it renews at
// each third of its ttl. It returns 0 if the store does not report leases, or the claim does not hold.
func Unrenewed(c stile.Claim) time.Duration {
	if !c.Holds || c.Left || c.TTL == 0 || c.Remaining <= 0 {
		return 0
	}
	if age := min(c.TTL-c.Remaining, c.Since); age > c.TTL/2 {
		return age
	}
	return 0
}

// Value returns a claim's value for a person, who does not read JSON such as the records of jobs.
func Value(value string) string {
	if strings.HasPrefix(value, "{") && json.Valid([]byte(value)) {
		return "a record"
	}
	return value
}

func styleOf(c stile.Claim) Style {
	switch state(c) {
	case "holds":
		if Unrenewed(c) > 0 {
			return Warning
		}
		return Good
	case "kept", "run out":
		return Warning
	}
	return Plain
}

// Summary returns the page as text that stays on the terminal, without its footer and the empty lines before it.
func Summary(lines []Line) string {
	lines = slices.Clone(lines[:max(len(lines)-1, 0)])
	for len(lines) > 0 && lines[len(lines)-1].Text == "" {
		lines = lines[:len(lines)-1]
	}
	return strings.Join(Paint(lines, false), "\n") + "\n"
}
