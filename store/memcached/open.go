package memcached

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
)

const defaultDialTimeout = 5 * time.Second

// The layouts.
const (
	layoutQueue = "queue" // a Driver's
	layoutPlain = "plain" // a Plain's
)

func init() {
	driver.Register("memcached", func(ctx context.Context, a *driver.Address) (driver.Driver, error) {
		switch l := a.Param("layout", layoutQueue); l {
		case layoutQueue:
			return Open(ctx, a)
		case layoutPlain:
			return OpenPlain(ctx, a)
		default:
			return nil, driver.Refused(fmt.Errorf("parameter layout: %q is neither %s nor %s", l, layoutQueue, layoutPlain))
		}
	})
}

// OpenPlain connects to the memcached at an address, as [Open] does. Keys begin with the prefix; "" means none.
func OpenPlain(ctx context.Context, a *driver.Address) (*Plain, error) {
	prefix := a.Param("prefix", "")
	l, err := openLink(ctx, a, prefix)
	if err != nil {
		return nil, err
	}
	return &Plain{link: l, prefix: prefix, endless: map[string]time.Time{}, held: map[string]*sight{}}, nil
}

// Open connects to the memcached at an address:
//
//	memcached://[user:password@]host[:11211]
//
// Parameters: prefix, layout (of [driver.Open]: queue, or plain for a [Plain]), dial_timeout.
func Open(ctx context.Context, a *driver.Address) (*Driver, error) {
	prefix := a.Param("prefix", DefaultPrefix)
	l, err := openLink(ctx, a, prefix)
	if err != nil {
		return nil, err
	}
	return newDriver(l, prefix), nil
}

// openLink connects to the server of an address.
func openLink(ctx context.Context, a *driver.Address, prefix string) (*link, error) {
	timeout, err := a.Duration("dial_timeout", defaultDialTimeout)
	if err != nil {
		return nil, err
	}
	if err := a.Done(); err != nil {
		return nil, err
	}
	hosts := a.HostPorts("127.0.0.1", "11211")
	switch {
	case len(hosts) > 1:
		return nil, driver.Refused(errors.New("memcached:// takes one host: clients that spread names over several do it each " +
			"in its own way, and two of them would hold one lock"))
	case a.Path != "":
		return nil, driver.Refused(errors.New("memcached has no databases: leave out what follows the host"))
	}
	if err := checkPrefix(prefix); err != nil {
		return nil, driver.Refused(err)
	}
	if strings.ContainsAny(a.User+a.Password, "\r\n") || strings.Contains(a.User, " ") {
		return nil, driver.Refused(errors.New("a user of memcached has no spaces, and neither user nor password has line breaks"))
	}
	l := &link{addr: hosts[0], user: a.User, password: a.Password, dialTimeout: timeout}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	if _, err := l.get(ctx); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

const maxPrefix = 100

// checkPrefix returns an error if a text cannot begin keys.
func checkPrefix(prefix string) error {
	if len(prefix) > maxPrefix {
		return fmt.Errorf("parameter prefix: it is %d bytes long; the limit is %d", len(prefix), maxPrefix)
	}
	if strings.ContainsFunc(prefix, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("parameter prefix: keys of memcached have no spaces, control characters or letters beyond ASCII")
	}
	return nil
}
