//go:build unix

package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/phrase"
)

// ErrEnded says that a process is to end with the demo.
var ErrEnded = errors.New("the demo has ended")

// Send writes it to stdout.
func (n *Notice) Send() error { return json.NewEncoder(os.Stdout).Encode(n) }

// Ask sends a notice, and returns when the demo has answered. If this process is stopped meanwhile, it is stopped here.
func (n *Notice) Ask(answers *bufio.Scanner) error {
	if err := n.Send(); err != nil {
		return err
	}
	if !answers.Scan() {
		return errors.Join(ErrEnded, answers.Err())
	}
	return nil
}

// Orders delivers the demo's orders for this process, until stdin ends. Then it closes the channel and calls end.
func Orders(end func()) <-chan string {
	orders := make(chan string)
	go func() { // until stdin ends, and then the process
		defer end()
		defer close(orders)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			orders <- in.Text()
		}
	}()
	return orders
}

// Patiently returns a context for the wait for a lock and the work under it.
func Patiently(ctx context.Context, ttl time.Duration, lock string) (context.Context, context.CancelFunc) {
	most := 3*ttl + Patience
	return context.WithTimeoutCause(ctx, most, fmt.Errorf("the store did not give %s within %v", lock, most))
}

// Failed makes the failure of a process a notice: the demo reports it, only once.
func Failed(err error) error {
	if err == nil {
		return nil
	}
	code, text := exit.Of(err)
	_ = (&Notice{What: DidFail, Code: code, Text: phrase.OneLine(text)}).Send() // if nobody reads it, stdin has ended too
	return exit.With(code, nil)
}
