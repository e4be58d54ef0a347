package tickets

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/demo"
)

// A box is the box office of the demo: a folder with the number of tickets left and the ledger of sales, and after the sale
// the contents of the ledger.
type box struct {
	dir     string
	tickets int
	pids    []int // of the sellers
	sales   []sale
	took    time.Duration
	seen    looking // by the browsers
}

// A sale is one line of the ledger.
type sale struct {
	ticket, seller int
	token          int64 // 0 without a lock
	waited         time.Duration
	from, to       time.Time // from reading the number left until the sale is noted
}

// openBox makes a folder with a number of tickets to sell.
func openBox(dir string, tickets int) (*box, error) {
	b := &box{dir: dir, tickets: tickets}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(b.left(), []byte(demo.CountText(tickets)), 0o600); err != nil {
		return nil, err
	}
	return b, os.WriteFile(b.ledger(), nil, 0o600)
}

func (b *box) left() string   { return filepath.Join(b.dir, "left") }
func (b *box) ledger() string { return filepath.Join(b.dir, "ledger") }

// read takes the sales from the ledger.
func (b *box) read() error {
	text, err := os.ReadFile(b.ledger())
	if err != nil {
		return err
	}
	b.sales = nil
	for line := range strings.Lines(string(text)) {
		var s sale
		var micros, from, to int64
		if n, err := fmt.Sscan(line, &s.ticket, &s.seller, &s.token, &micros, &from, &to); n != 6 {
			return errors.Join(errors.New("a line of the ledger is torn"), err)
		}
		s.waited, s.from, s.to = time.Duration(micros)*time.Microsecond, time.UnixMicro(from), time.UnixMicro(to)
		b.sales = append(b.sales, s)
	}
	return nil
}

// twice counts the tickets that were sold more than once, and returns the one that was sold most often.
func (b *box) twice() (tickets, worst, times int) {
	sold := map[int]int{}
	for _, s := range b.sales {
		n := sold[s.ticket] + 1
		sold[s.ticket] = n
		if n == 2 {
			tickets++
		}
		if n > times {
			worst, times = s.ticket, n
		}
	}
	return tickets, worst, times
}

// tokensRise reports whether every sale has a larger token than the one before it.
func (b *box) tokensRise() bool {
	for i := 1; i < len(b.sales); i++ {
		if b.sales[i].token <= b.sales[i-1].token {
			return false
		}
	}
	return true
}

// waits returns how long a seller waited for the lock each time, in order; seller 0 means all of them.
func (b *box) waits(seller int) (list []time.Duration) {
	for _, s := range b.sales {
		if seller == 0 || s.seller == seller {
			list = append(list, s.waited)
		}
	}
	slices.Sort(list)
	return list
}

// sellers returns a row for each.
func (b *box) sellers() (rows [][]string) {
	for i, pid := range b.pids {
		waits := b.waits(i + 1)
		rows = append(rows, []string{
			"  " + strconv.Itoa(i+1), strconv.Itoa(pid), strconv.Itoa(len(waits)),
			quantile(waits, 0.5).Round(10 * time.Microsecond).String(), quantile(waits, 0.99).Round(10 * time.Microsecond).String(),
		})
	}
	return rows
}

// quantile returns the value below which a part of a sorted list lies.
func quantile(list []time.Duration, part float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	return list[min(len(list)-1, int(part*float64(len(list))))]
}
