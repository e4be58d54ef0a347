package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

// The layouts that an address can name, over package conn. The queue's files begin with queue_, the others with setnx and
// tair. The parts that these share with Redlock's node (redlock.go) begin with value.
const (
	layoutQueue = "queue" // a Driver's
	layoutSetNX = "setnx" // a SetNX's
	layoutExSet = "exset" // of newExSet
)

func init() {
	for _, servers := range []string{"", "+sentinel", "+cluster"} {
		driver.Register("redis"+servers, openLayout)
		driver.Register("rediss"+servers, openLayout)
	}
	driver.Register("tair", openTair)
	driver.Register("tairs", openTair)
	driver.Register("redlock", openRedlock)
	driver.Register("redlocks", openRedlock)
}

// openLayout opens the driver of the layout that an address names.
func openLayout(ctx context.Context, a *driver.Address) (driver.Driver, error) {
	layout := a.Param("layout", layoutQueue)
	if layout != layoutQueue && layout != layoutSetNX {
		return nil, driver.Refused(fmt.Errorf("parameter layout: %q is neither %s nor %s", layout, layoutQueue, layoutSetNX))
	}
	c, prefix, err := openConn(ctx, a)
	if err != nil {
		return nil, err
	}
	if layout == layoutSetNX {
		return newSetNX(ctx, c, prefix), nil
	}
	return newDriver(ctx, c, prefix), nil
}

// Open connects to the Redis at an address:
//
//	redis://[user:password@]host[:6379][/database]
//	redis+sentinel://[user:password@]host[:26379],…/master[/database]
//	redis+cluster://[user:password@]host[:6379],…
//
// and with rediss in place of redis by TLS. Parameters: prefix, layout (of [driver.Open]: queue, or setnx for a [SetNX]),
// dial_timeout (5 s, and 2 s with Sentinel); with TLS, the files tls_ca, tls_cert and
// tls_key, and tls_server_name; with Sentinel, sentinel_user and sentinel_password.
func Open(ctx context.Context, a *driver.Address) (*Driver, error) {
	c, prefix, err := openConn(ctx, a)
	if err != nil {
		return nil, err
	}
	return newDriver(ctx, c, prefix), nil
}

// Servers are servers that a program names without a URL, as package store/redis/goredis does for a go-redis client.
type Servers = conn.Servers

// Dial connects to servers without a URL, such as servers with the program's own TLS settings. The driver closes the
// connection.
func Dial(ctx context.Context, s *Servers, o *Options) (*Driver, error) {
	prefix := ""
	if o != nil {
		prefix = o.Prefix
	}
	if err := checkPrefix(prefix); err != nil {
		return nil, err
	}
	c, err := conn.Dial(ctx, s)
	if err != nil {
		return nil, err
	}
	return newDriver(ctx, c, prefix), nil
}

// openConn connects to the servers at an address, and returns the address's prefix of keys.
func openConn(ctx context.Context, a *driver.Address) (c *conn.Conn, prefix string, err error) {
	prefix = a.Param("prefix", "")
	if err := checkPrefix(prefix); err != nil {
		return nil, "", err
	}
	c, err = conn.Open(ctx, a)
	return c, prefix, err
}

func checkPrefix(prefix string) error {
	if strings.ContainsAny(prefix, "{}") {
		return driver.Refused(errors.New("the prefix must not have braces: a cluster takes them for its own"))
	}
	return nil
}
