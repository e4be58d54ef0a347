package stile

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/claims"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// A Client takes locks in one store. A process needs one client, which all its goroutines use. Make it with [Open] or [New].
// It must not be copied, and a child process cannot use it.
type Client struct {
	d      driver.Driver
	traits driver.Traits
	opts   Options
	keeper *claims.Keeper
	plain  Lock    // the beginning of every lock
	self   *Client // differs in a copy, which would not know its own leases
}

// Open opens the store at a URL, such as redis://host:6379, and returns a client that owns it. The scheme's package must be
// imported. Open waits for Options.Patience at most. The error never shows the URL, which may contain a password.
func Open(ctx context.Context, url string, o *Options) (*Client, error) {
	if ctx == nil {
		return nil, fmt.Errorf("stile: open: %w", errNoContext)
	}
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	d, err := claims.Open(ctx, url, opts.Patience)
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
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if v := reflect.ValueOf(d); d == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("stile: open: %w driver: it is nil", ErrInvalid)
	}
	c := &Client{d: d, traits: d.Traits(), opts: opts}
	c.self = c
	if lacks := c.traits.Require(opts.Require...); lacks != nil {
		return nil, fmt.Errorf("stile: open: %w", lacks)
	}
	c.plain.c = c
	c.plain.set(opts.LockOptions)
	c.keeper = claims.New(d, claims.Config{
		Turn: opts.Turn, Margin: opts.Margin, Drift: opts.Drift, Patience: opts.Patience, Slept: slept,
		Observe: opts.Observer.inner(), Require: opts.Require,
	})
	return c, nil
}

// Traits returns the promises of the store. The notes may grow: some stores learn more later.
func (c *Client) Traits() driver.Traits { return c.d.Traits() }

// Close ends every wait, with [ErrClosed], and every held lease, which is then lost with reason [ReasonShutdown]. It removes
// unused and waiting claims from the store, which takes Options.Patience at most, and closes the store. The claims of leases
// that were not released stay until they run out, since the work under them may not have ended. Closing twice is harmless.
func (c *Client) Close() error {
	err := c.usable()
	if err == nil {
		return c.keeper.Close()
	}
	return fmt.Errorf("stile: close: %w", err)
}

var errNoContext = fmt.Errorf("%w context: it is nil", ErrInvalid)

// usable returns an error if the client was not made by Open or New.
func (c *Client) usable() error {
	switch {
	case c == nil || c.keeper == nil:
		return fmt.Errorf("%w client: make one with Open or New", ErrInvalid)
	case c.self != c:
		return fmt.Errorf("%w client: it is a copy, which would not know its own leases; use a pointer to one client", ErrInvalid)
	}
	return nil
}

// ready returns an error if the store cannot be asked with this context.
func (c *Client) ready(ctx context.Context) error {
	if err := c.usable(); err != nil || ctx != nil {
		return err
	}
	return errNoContext
}

// patiently asks the store once, until it has been silent for Options.Patience.
func (c *Client) patiently(ctx context.Context, ask func(context.Context) error) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	bounded, cancel := driver.WithPatience(ctx, c.opts.Patience, context.DeadlineExceeded)
	defer cancel()
	err := ask(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return c.silence()
	}
	return err
}

func (c *Client) silence() error {
	return driver.Unreachable(fmt.Errorf("tried for %v: %w", c.opts.Patience, protocol.ErrSilent))
}
