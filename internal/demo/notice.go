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

// ErrEnded ends a process: its demo has ended.
var ErrEnded = errors.New("the demo has ended")

// Send writes the notice to stdout.
func (n *Notice) Send() error { return json.NewEncoder(os.Stdout).Encode(n) }

// Ask sends a notice and waits for the demo's answer. A fault that stops this process stops it here.
func (n *Notice) Ask(answers *bufio.Scanner) error {
	if err := n.Send(); err != nil {
		return err
	}
	if !answers.Scan() {
		return errors.Join(ErrEnded, answers.Err())
	}
	return nil
}

// Orders delivers the demo's orders for this process. When stdin ends, it closes the channel and calls end.
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

// Patiently returns a context for a wait for a lock and the work under it: three leases and Patience.
func Patiently(ctx context.Context, ttl time.Duration, lock string) (context.Context, context.CancelFunc) {
	most := 3*ttl + Patience
	return context.WithTimeoutCause(ctx, most, fmt.Errorf("the store did not give %s within %v", lock, most))
}

// Failed sends the failure of a process as a notice, and returns its exit status without the text: only the demo reports it.
func Failed(err error) error {
	if err == nil {
		return nil
	}
	code, text := exit.Of(err)
	// If nobody reads the notice, stdin has ended too.
	_ = (&Notice{What: DidFail, Code: code, Text: phrase.OneLine(text)}).Send()
	return exit.With(code, nil)
}
