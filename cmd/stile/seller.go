package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile"
)

const (
	sellerName = "seller"

	// What a seller writes to stdout.
	readyByte = 'r'
	soldByte  = 's'

	thinking = 2 * time.Millisecond // at most, between reading and writing
)

// newSeller is one process of the demonstration. It is ready when it has written a byte, begins when stdin ends, and
// writes a byte for each sale.
func newSeller(s *store) *cobra.Command {
	return &cobra.Command{
		Use: sellerName, Hidden: true, Args: cobra.ExactArgs(4),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := strconv.Atoi(args[1])
			if err != nil {
				return usage("seller %q is not a number", args[1])
			}
			ttl, err := time.ParseDuration(args[3])
			if err != nil {
				return usage("TTL %q: %w", args[3], err)
			}
			s.ttl, s.every.TTL = ttl, ttl
			seller := &seller{ttl: ttl, box: &box{dir: args[0]}, number: number}
			if name := args[2]; name != "" {
				c, err := s.open(cmd.Context(), nil)
				if err != nil {
					return err
				}
				defer c.Close()
				seller.lock = c.Mutex(name)
			}
			return seller.work(cmd.Context())
		},
	}
}

type seller struct {
	*box
	number int
	ttl    time.Duration
	lock   *stile.Lock // nil without a lock
}

func (s *seller) work(ctx context.Context) error {
	if _, err := os.Stdout.Write([]byte{readyByte}); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	for more := true; more; {
		var err error
		if s.lock == nil {
			more, err = s.one(0, 0)
		} else {
			more, err = s.locked(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// locked sells one ticket under the lock.
func (s *seller) locked(ctx context.Context) (more bool, err error) {
	most := 3*s.ttl + paymentPatience
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("the store did not give the lock within %v", most))
	defer cancel()
	begin := time.Now()
	err = s.lock.Do(ctx, func(ctx context.Context) (err error) {
		more, err = s.one(stile.Token(ctx), time.Since(begin))
		return err
	})
	return more, err
}

// one sells one ticket, if any is left.
func (s *seller) one(token int64, waited time.Duration) (bool, error) {
	from := time.Now()
	text, err := os.ReadFile(s.left())
	if err != nil {
		return false, err
	}
	left, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || left == 0 {
		return false, err
	}
	time.Sleep(rand.N(thinking))
	if err := patch(s.left(), countText(left-1)); err != nil {
		return false, err
	}
	line := fmt.Sprintf("%d %d %d %d %d %d\n", left, s.number, token, waited.Microseconds(), from.UnixMicro(), time.Now().UnixMicro())
	if err := appendTo(s.ledger(), line); err != nil {
		return false, err
	}
	_, err = os.Stdout.Write([]byte{soldByte})
	return true, err
}

// patch writes over the beginning of a file.
func patch(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}
