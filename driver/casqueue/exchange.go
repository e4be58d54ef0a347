package casqueue

import (
	"context"
	"time"

	"github.com/stilelock/stile/driver"
)

// An Exchanger is a store whose answer to a swap has the value afterwards. The promises of [Store]'s methods hold for its
// methods too. It saves requests: the client that changed a name last changes it again with one request, and a client that
// came too late need not get the value. Its requests should travel together: one call may ask for 256 names at a time.
//
// It may forget: a value may be removed once all claims in it are over. So tickets are numbers of the store's clock.
type Exchanger interface {
	// Look is Get of [Store]. If the version is still seen, the text may be left out.
	Look(ctx context.Context, name string, seen Version) (Value, error)

	// Exchange is Swap of [Store]. It also returns the value afterwards, whichever client put it there. If the exchange was
	// made, Now is read after it. A value without a version is not used.
	Exchange(ctx context.Context, d *Draft) (is Value, made bool, err error)

	// Clock returns the time of the store's clock, or an earlier time. It makes no request. The driver uses it to ask for
	// leases that are long enough; no lease ends by it.
	Clock() time.Duration

	Names(ctx context.Context, prefix string) ([]string, error)
	Traits() driver.Traits
	Close() error
}

// A Draft is a new value, and the version that it replaces.
type Draft struct {
	Name string
	Was  Version // the version that it replaces; empty if there must be no value
	Text []byte
	Ends time.Duration // when the last claim in it is over, by the store's clock; 0 if there is no claim
}

// A Many is a [Store] or an [Exchanger] that can get the values of many names with few requests, for listings.
type Many interface {
	// GetMany returns the value of each name at the same index, as Get does, or an error for it.
	GetMany(ctx context.Context, names []string) ([]Value, []error)
}

// plain makes an [Exchanger] of a [Store]. It returns no value that needs another request.
type plain struct{ Store }

func (p plain) Look(ctx context.Context, name string, _ Version) (Value, error) {
	return p.Get(ctx, name)
}

func (p plain) Exchange(ctx context.Context, d *Draft) (Value, bool, error) {
	made, err := p.Swap(ctx, d.Name, d.Was, d.Text)
	return Value{}, made, err
}

func (plain) Clock() time.Duration { return 0 }
