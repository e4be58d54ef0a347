package tickets

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/exit"
)

const sellerName = "seller"

// A seller's reports, beside demo.DidBegin, demo.DidAsk, demo.DidHalt, demo.DidLose, demo.DidFail and
// demo.DidEnd.
const (
	didSell    = "sold"
	didSellOut = "sold out" // no ticket is left, and it ends
)

// The ways in which a seller sells, beside the lock.
const (
	sellFast    = "fast"    // without a question
	sellAsking  = "asking"  // it asks before each write
	sellGuarded = "guarded" // asks too, and the token guards the number of tickets left
)

// Seller is the program of a seller's process, with the arguments DIR, NUMBER, NAME, TTL and the way.
func Seller(s *store.Store) *cobra.Command {
	return processCommand(sellerName, 5, func(ctx context.Context, args []string) error { return beginSeller(ctx, s, args) })
}

func beginSeller(ctx context.Context, s *store.Store, args []string) error {
	number, err := strconv.Atoi(args[1])
	if err != nil {
		return exit.Usage("seller %q is not a number", args[1])
	}
	ttl, err := time.ParseDuration(args[3])
	if err != nil {
		return exit.Usage("TTL %q: %w", args[3], err)
	}
	s.TTL, s.Every.TTL = ttl, ttl
	seller := &seller{ttl: ttl, box: &box{dir: args[0]}, number: number, way: args[4], in: bufio.NewScanner(os.Stdin)}
	if name := args[2]; name != "" {
		var tell func(stile.Event)
		if seller.way != sellFast {
			tell = func(stile.Event) {} // the demo itself reports the lock's events
		}
		c, err := s.Open(ctx, tell)
		if err != nil {
			return err
		}
		defer c.Close()
		seller.lock = c.Mutex(name)
	}
	return seller.work(ctx)
}

// A seller sells until nothing is left. It begins by an order, and reports each sale.
type seller struct {
	*box
	number int
	ttl    time.Duration
	lock   *stile.Lock // nil without a lock
	way    string
	in     *bufio.Scanner
}

func (s *seller) work(ctx context.Context) error {
	if err := (&demo.Notice{What: demo.DidBegin}).Ask(s.in); err != nil {
		return err
	}
	for {
		n, err := s.locked(ctx)
		if err != nil {
			return err
		}
		if err := n.Send(); err != nil || n.What == didSellOut {
			return err
		}
	}
}

// locked sells one ticket, under the lock if there is one.
func (s *seller) locked(ctx context.Context) (*demo.Notice, error) {
	n, begin := &demo.Notice{}, time.Now()
	if s.lock == nil {
		return n, s.one(ctx, n, begin)
	}
	ctx, cancel := demo.Patiently(ctx, s.ttl, "the lock")
	defer cancel()
	err := s.lock.Do(ctx, func(ctx context.Context) error { return s.one(ctx, n, begin) })
	if s.way == sellFast || !errors.Is(err, stile.ErrLost) {
		return n, err
	}
	if n.Lost = true; n.What == "" {
		n.What = demo.DidLose
	}
	return n, nil
}

// one sells a ticket, if any is left, and puts the result into the notice.
func (s *seller) one(ctx context.Context, n *demo.Notice, begin time.Time) error {
	from := time.Now()
	n.Token = stile.Token(ctx)
	left, err := s.look(ctx, n.Token)
	switch {
	case err != nil:
		return s.halt(n, err)
	case left.count == 0:
		n.What = didSellOut
		return nil
	}
	time.Sleep(rand.N(demo.Thinking))
	if s.way != sellFast {
		if ctx.Err() != nil { // the last check of the lease
			return context.Cause(ctx)
		}
		if err := (&demo.Notice{What: demo.DidAsk, Order: left.count}).Ask(s.in); err != nil {
			return err
		}
	}
	// From here on nothing stops the write, whatever happens to the lease.
	n.Order = left.count
	if err := left.write(context.WithoutCancel(ctx)); err != nil {
		return s.halt(n, err)
	}
	line := fmt.Sprintf("%d %d %d %d %d %d\n", left.count, s.number, n.Token, from.Sub(begin).Microseconds(), from.UnixMicro(),
		time.Now().UnixMicro())
	n.What = didSell
	return demo.AppendTo(s.ledger(), line)
}

// halt makes a notice of the guard's refusal.
func (s *seller) halt(n *demo.Notice, err error) error {
	if !errors.Is(err, guard.ErrStale) {
		return err
	}
	n.What = demo.DidHalt
	n.Text = strings.TrimPrefix(strings.ReplaceAll(err.Error(), s.dir+string(filepath.Separator), ""), "guard: ")
	return nil
}

// A stock is the number of tickets left, as a seller has read it.
type stock struct {
	count int
	path  string
	file  *guard.File // nil without a guard
}

// look reads the number of tickets left. With a guard, the token is raised first.
func (s *seller) look(ctx context.Context, token int64) (left stock, err error) {
	left.path = s.left()
	var text []byte
	if s.way != sellGuarded {
		text, err = os.ReadFile(left.path)
	} else if left.file, err = guard.RaiseFile(ctx, left.path, token, nil); err == nil {
		text, err = left.file.Read(ctx)
	}
	if err == nil {
		left.count, err = demo.CountOf(string(text))
	}
	return left, err
}

// write lowers the number of tickets left by one.
func (s *stock) write(ctx context.Context) error {
	if s.file != nil {
		return s.file.Write(ctx, []byte(demo.CountText(s.count-1)))
	}
	return demo.Patch(s.path, demo.CountText(s.count-1))
}
