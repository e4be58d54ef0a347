package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A box is the box office of the demonstration: a folder with the number of tickets left and the ledger, and what was
// read from the ledger after the sale.
type box struct {
	dir     string
	tickets int
	pids    []int // of the sellers
	sales   []sale
	took    time.Duration
}

// A sale is one line of the ledger.
type sale struct {
	ticket, seller int
	token          int64 // 0 without a lock
	waited         time.Duration
	from, to       time.Time // from the look at how many are left until the sale is noted
}

// openBox makes a folder with so many tickets to sell.
func openBox(dir string, tickets int) (*box, error) {
	b := &box{dir: dir, tickets: tickets}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(b.left(), []byte(countText(tickets)), 0o600); err != nil {
		return nil, err
	}
	return b, os.WriteFile(b.ledger(), nil, 0o600)
}

func (b *box) left() string   { return filepath.Join(b.dir, "left") }
func (b *box) ledger() string { return filepath.Join(b.dir, "ledger") }

// countText writes all numbers with the same length: one that replaces another leaves nothing of it.
func countText(n int) string { return fmt.Sprintf("%8d\n", n) }

// sell runs the sellers, all beginning at once, until nothing is left. Without a name they use no lock.
func (b *box) sell(ctx context.Context, processes int, url, name string, ttl time.Duration, show func(sold int)) error {
	ctx, cancel := context.WithCancel(ctx)
	var sellers []*salesman
	defer func() {
		cancel() // kills those that still run
		for _, s := range sellers {
			s.cmd.Wait()
		}
	}()
	steps := make(chan byte) // what sellers write, and 0 when one has ended
	for i := range processes {
		s, err := b.hire(ctx, i+1, url, name, ttl)
		if err != nil {
			return err
		}
		sellers = append(sellers, s)
		b.pids = append(b.pids, s.cmd.Process.Pid)
		go s.report(ctx, steps)
	}
	if err := ready(ctx, steps, processes); err != nil {
		return err
	}
	begin := time.Now()
	for _, s := range sellers {
		s.gate.Close()
	}
	if err := count(ctx, steps, processes, show); err != nil {
		return err
	}
	b.took = time.Since(begin)
	for i, s := range sellers {
		if err := s.cmd.Wait(); err != nil {
			said := strings.TrimPrefix(strings.TrimSpace(s.said.String()), "stile: ")
			return &status{s.cmd.ProcessState.ExitCode(), fmt.Errorf("seller %d: %s", i+1, cmp.Or(said, err.Error()))}
		}
	}
	sellers = nil
	return b.read()
}

// A salesman is a seller's process, as the demonstration sees it.
type salesman struct {
	cmd  *exec.Cmd
	gate io.Closer     // it begins to sell when this is closed
	out  io.Reader     // a byte when it is ready, and one for each sale
	said *bytes.Buffer // on stderr: why it failed
}

// hire starts a seller.
func (b *box) hire(ctx context.Context, number int, url, name string, ttl time.Duration) (*salesman, error) {
	cmd := exec.CommandContext(ctx, self(), "demo", sellerName, b.dir, strconv.Itoa(number), name, ttl.String())
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), urlVariable+"="+url)
	said := &bytes.Buffer{}
	cmd.Stderr, cmd.SysProcAttr = said, ofParent()
	gate, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &salesman{cmd, gate, out, said}, cmd.Start()
}

// report passes on what the seller writes, and 0 when it has ended.
func (s *salesman) report(ctx context.Context, steps chan<- byte) {
	for in := bufio.NewReader(s.out); ; {
		c, err := in.ReadByte()
		select {
		case steps <- c:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// ready waits until all sellers are.
func ready(ctx context.Context, steps <-chan byte, sellers int) error {
	for range sellers {
		select {
		case c := <-steps:
			if c != readyByte {
				return errors.New("a seller did not get ready")
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// count counts sales until all sellers have ended.
func count(ctx context.Context, steps <-chan byte, sellers int, show func(sold int)) error {
	for sold := 0; sellers > 0; {
		select {
		case c := <-steps:
			if c == 0 {
				sellers--
			} else {
				sold++
				show(sold)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

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

// twice counts the tickets that were sold more than once, and tells the one sold most often.
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

// quantile returns the value below which that part of a sorted list lies.
func quantile(list []time.Duration, part float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	return list[min(len(list)-1, int(part*float64(len(list))))]
}
