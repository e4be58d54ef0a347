package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/secure"
)

const (
	defaultDialTimeout = 5 * time.Second

	// keepAlive is how often an idle connection is checked. An answer may take as long as patience before the connection is
	// given up. They bound how long a call without a deadline can hang on a dead server.
	keepAlive = 5 * time.Second
	patience  = 5 * time.Second

	// hung is how long a server behind Sentinel may owe an answer before its connection is given up: another server may have
	// taken its place, and the library does not look before the first has answered. For the same reason it bounds
	// connecting.
	hung                = time.Second
	sentinelDialTimeout = 2 * time.Second

	// topology is how often Sentinel is asked who the primary is, in case its message was missed.
	topology = 2 * time.Second

	// smallBuffer replaces buffers of half a megabyte: requests and answers are about as long as a record.
	smallBuffer = 32 << 10
)

// Open connects to the servers at an address. The caller has read the parameters of a layout; unread ones are an error.
func Open(ctx context.Context, a *driver.Address) (*Conn, error) {
	o, err := clientOption(a)
	if err != nil {
		return nil, driver.Refused(err)
	}
	return secure.Open(ctx, servers(a, &o), func(ctx context.Context) (*Conn, error) { return open(ctx, a.Scheme, o) })
}

// servers are the servers of an address, which are asked whether they speak TLS if they cannot be used.
func servers(a *driver.Address, o *rueidis.ClientOption) *secure.Servers {
	kind, rest, more := strings.Cut(a.Scheme, "+")
	s := &secure.Servers{Store: "redis", Hosts: o.InitAddress, TLS: o.TLSConfig != nil, Scheme: a.Scheme, Greeting: "PING\r\n"}
	if s.Instead = kind + "s"; s.TLS {
		s.Instead = strings.TrimSuffix(kind, "s")
	}
	if more {
		s.Instead += "+" + rest
	}
	return s
}

// open connects with these options; scheme is for messages.
func open(ctx context.Context, scheme string, o rueidis.ClientOption) (*Conn, error) {
	c := newConn()
	c.user, c.store = o.Username, "redis"
	c.alone = o.Username != "" && o.Password == "" && o.AuthCredentialsFn == nil
	if strings.HasPrefix(scheme, "tair") {
		c.store = "tair"
	}
	for _, secret := range []string{o.Password, o.Sentinel.Password} {
		if secret != "" {
			c.secret = append(c.secret, secret)
		}
	}
	c.dialer = newDialer(o.Dialer.Timeout, silence(&o))
	o.DialCtxFn = c.dialer.dial
	start := time.Now()
	var err error
	if c.client, err = connect(ctx, c.dialer, o); err != nil {
		err = c.notOpened(ctx, &o, time.Since(start), err)
	}
	if err == nil {
		err = c.isCluster(ctx, scheme)
	}
	if err == nil {
		err = c.probe(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// notOpened explains why no client could be made.
func (c *Conn) notOpened(ctx context.Context, o *rueidis.ClientOption, tried time.Duration, err error) error {
	servers := strings.Join(o.InitAddress, ",")
	_, refused := errors.AsType[*rueidis.RedisError](err)
	_, named := errors.AsType[*dialError](err)
	switch {
	case ctx.Err() != nil:
		return driver.Ended(ctx, false)
	case rueidis.IsRedisNil(err) || refused && strings.Contains(err.Error(), "No such master"):
		return driver.Refused(fmt.Errorf("sentinel at %s knows no primary named %q", servers, o.Sentinel.MasterSet))
	case !refused && !named && !errors.Is(err, errNoRoom):
		err = &dialError{servers, tried, foreign(err)}
	}
	return c.explain(ctx, err)
}

// isCluster checks that the client of a cluster is one: with a single host that does not list the others, the library makes
// the client of one server, and most names are not on it.
func (c *Conn) isCluster(ctx context.Context, scheme string) error {
	if !strings.HasSuffix(scheme, "+cluster") || c.client.Mode() == rueidis.ClientModeCluster {
		return nil
	}
	ask, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	for _, about := range []string{"SLOTS", "SHARDS"} {
		err := c.client.Do(ask, c.client.B().Arbitrary("CLUSTER", about).Build()).Error()
		refusal, refused := errors.AsType[*rueidis.RedisError](err)
		switch {
		case refused && strings.Contains(refusal.Error(), "cluster support disabled"):
			return driver.Refused(fmt.Errorf("redis is no cluster here: use %s://", strings.TrimSuffix(scheme, "+cluster")))
		case err != nil:
			return c.explain(ctx, err)
		}
	}
	return driver.Unsent(driver.Unreachable(errors.New("redis did not say which servers the cluster has")))
}

// connect makes a client. Its library takes no context, so the dialer is closed if ctx ends first.
func connect(ctx context.Context, t *dialer, o rueidis.ClientOption) (rueidis.Client, error) {
	type made struct {
		client rueidis.Client
		err    error
	}
	done := make(chan made, 1)
	go func() {
		client, err := rueidis.NewClient(o)
		done <- made{client, err}
	}()
	var m made
	select {
	case m = <-done:
	case <-ctx.Done():
		t.close()
		m = <-done // the library ends, now that it cannot dial; it may have made a client before
		m.err = ctx.Err()
	}
	if m.err != nil {
		t.close()
		if m.client != nil {
			m.client.Close()
		}
		return nil, m.err
	}
	return m.client, nil
}

// ordinary returns the options of all connections. Retries are off: the driver's caller decides when to give up.
func ordinary() rueidis.ClientOption {
	return rueidis.ClientOption{
		ClientName:   "stile",
		DisableCache: true, DisableRetry: true,
		PipelineMultiplex:  -1, // one connection: requests of many goroutines travel together
		ConnWriteTimeout:   patience,
		ReadBufferEachConn: smallBuffer, WriteBufferEachConn: smallBuffer, RingScaleEachConn: ringScale,
		Dialer: net.Dialer{KeepAlive: keepAlive},
	}
}

// sentinel returns the options for asking Sentinel for the primary of this name, with the dialer and the TLS of the client.
func sentinel(o *rueidis.ClientOption, primary, user, password string) rueidis.SentinelOption {
	return rueidis.SentinelOption{
		MasterSet: primary, TopologyRefreshInterval: topology, Dialer: o.Dialer, TLSConfig: o.TLSConfig,
		Username: user, Password: password,
	}
}

// silence returns how long a connection may owe an answer.
func silence(o *rueidis.ClientOption) time.Duration {
	if o.Sentinel.MasterSet != "" {
		return hung
	}
	return patience
}
