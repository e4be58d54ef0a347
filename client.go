package stile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/claims"
)

// A Client takes locks in one store. A process needs one, used by all its goroutines.
type Client struct {
	d      driver.Driver
	traits driver.Traits
	opts   Options
	keeper *claims.Keeper
	want   claims.Want // what all locks begin with
}

// Open opens the store at a URL, such as redis://host:6379 or sqlite:///path/locks.db, and returns a client that owns
// it. The scheme's package must be imported. The error never shows the URL, which may hold a password.
func Open(ctx context.Context, url string, o *Options) (*Client, error) {
	d, err := driver.Open(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("stile: open: %w", explain(err))
	}
	c, err := New(d, o)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return c, nil
}

// New returns a client of a store that is open already, and closes it with the client. Nil options mean the defaults.
func New(d driver.Driver, o *Options) (*Client, error) { return newClient(d, o, nil) }

func newClient(d driver.Driver, o *Options, slept func() time.Duration) (*Client, error) {
	if o == nil {
		o = &Options{}
	}
	opts, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("stile: open: %w", err)
	}
	c := &Client{d: d, traits: d.Traits(), opts: opts}
	plain := &Lock{}
	if plain.set(opts.LockOptions); plain.err != nil {
		return nil, fmt.Errorf("stile: open: %w", plain.err)
	}
	c.want = plain.want
	c.keeper = claims.New(d, claims.Config{
		Turn: opts.Turn, Margin: opts.Margin, Drift: opts.Drift, Patience: opts.Patience,
		Observe: opts.Observer.inner(), Slept: slept,
	})
	return c, nil
}

// Traits tells what the store can promise.
func (c *Client) Traits() driver.Traits { return c.traits }

// Close ends everything that waits, with [ErrClosed], and every lease that is held, which is then lost with reason
// [Shutdown]; it takes unused and waiting claims out of the store, on which it spends Options.Patience at most, and
// closes the store. Claims under leases that were not released stay until they run out, since the work under them may
// not have ended. Closing twice is harmless.
func (c *Client) Close() error { return c.keeper.Close() }
