package tickets

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/exit"
)

const (
	browserName = "browser"
	browserRole = "browser"

	didBrowse = "browsed" // a browser has ended, with its number of looks

	browsing = 10 * time.Millisecond // at most, between two looks
)

// Browser is the program of a process that reads the number of tickets left while others sell, with the arguments DIR,
// TICKETS, NAME and TTL.
func Browser(s *store.Store) *cobra.Command {
	return processCommand(browserName, 4, func(ctx context.Context, args []string) error { return beginBrowser(ctx, s, args) })
}

func beginBrowser(ctx context.Context, s *store.Store, args []string) error {
	tickets, err := strconv.Atoi(args[1])
	if err != nil {
		return exit.Usage("tickets %q is not a number", args[1])
	}
	ttl, err := time.ParseDuration(args[3])
	if err != nil {
		return exit.Usage("TTL %q: %w", args[3], err)
	}
	s.TTL, s.Every.TTL = ttl, ttl
	b := &browser{box: &box{dir: args[0], tickets: tickets}, ttl: ttl}
	if name := args[2]; name != "" {
		c, err := s.Open(ctx, func(stile.Event) {}) // a look whose lease is lost does not count
		if err != nil {
			return err
		}
		defer c.Close()
		b.lock = c.Reader(name)
	}
	return b.work(ctx)
}

// A browser reads again and again the numbers of tickets left and sold. It begins and ends by orders.
type browser struct {
	*box
	ttl         time.Duration
	lock        *stile.Lock // the readers' side of the sellers' lock; nil without a lock
	looks, torn int
}

func (b *browser) work(ctx context.Context) error {
	in, over := bufio.NewScanner(os.Stdin), make(chan struct{})
	if err := (&demo.Notice{What: demo.DidBegin}).Ask(in); err != nil {
		return err
	}
	go func() { // until stdin or the process ends
		defer close(over)
		in.Scan()
	}()
	for last := false; ; {
		if err := b.look(ctx); err != nil {
			return err
		}
		if last {
			return (&demo.Notice{What: didBrowse, Looks: b.looks, Torn: b.torn}).Send()
		}
		select {
		case <-over: // the sale
			last = true
		case <-time.After(rand.N(browsing)):
		}
	}
}

// look looks once, under the lock if there is one.
func (b *browser) look(ctx context.Context) error {
	var whole bool
	var err error
	if b.lock == nil {
		whole, err = b.whole()
	} else {
		ctx, cancel := demo.Patiently(ctx, b.ttl, "the lock")
		defer cancel()
		err = b.lock.Do(ctx, func(context.Context) (err error) {
			whole, err = b.whole()
			return err
		})
		if errors.Is(err, stile.ErrLost) {
			return nil
		}
	}
	if err != nil {
		return err
	}
	b.looks++
	if !whole {
		b.torn++
	}
	return nil
}

// whole reports whether the tickets sold and left add up to all tickets. In the middle of a sale they do not.
func (b *box) whole() (bool, error) {
	left, err := os.ReadFile(b.left())
	if err != nil {
		return false, err
	}
	count, err := demo.CountOf(string(left))
	if err != nil {
		return false, err
	}
	ledger, err := os.ReadFile(b.ledger())
	return count+bytes.Count(ledger, []byte{'\n'}) == b.tickets, err
}
