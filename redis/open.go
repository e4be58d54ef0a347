package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/secure"
)

// The layouts.
const (
	layoutQueue = "queue" // a Driver's
	layoutSetNX = "setnx" // a SetNX's
)

const (
	defaultDialTimeout = 5 * time.Second

	// keepAlive is how often an idle connection is tried, and patience how long its answer may take, before it is given
	// up. They bound how long a call without a deadline can hang on a server that is gone.
	keepAlive = 5 * time.Second
	patience  = 5 * time.Second

	// hung is how long a server behind Sentinel may owe an answer until the connection to it is given up: another may have
	// taken its place, and the library does not look before the first has answered. Connecting is bounded for the same
	// reason.
	hung                = time.Second
	sentinelDialTimeout = 2 * time.Second

	// flushDelay is how long requests of many goroutines gather. A lone request does not wait.
	flushDelay = 50 * time.Microsecond

	// topology is how often Sentinel is asked who the primary is, in case its message was missed.
	topology = 2 * time.Second

	// smallBuffer replaces buffers of half a megabyte: requests and answers are about as long as a record.
	smallBuffer = 32 << 10
)

func init() {
	for _, scheme := range []string{"redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"} {
		driver.Register(scheme, openLayout)
	}
}

// openLayout opens the driver of the layout that an address names.
func openLayout(ctx context.Context, a *driver.Address) (driver.Driver, error) {
	layout, prefix := a.Param("layout", layoutQueue), a.Param("prefix", "")
	if layout != layoutQueue && layout != layoutSetNX {
		return nil, driver.Refused(fmt.Errorf("parameter layout: %q is neither %s nor %s", layout, layoutQueue, layoutSetNX))
	}
	d, err := Open(ctx, a)
	if err != nil {
		return nil, err
	}
	if layout == layoutSetNX {
		return newSetNX(d, prefix), nil
	}
	return d, nil
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
	o, prefix, err := clientOption(a)
	if err != nil {
		return nil, driver.Refused(err)
	}
	d, err := newDriver(nil, prefix)
	if err != nil {
		return nil, err
	}
	d.user = a.User
	for _, secret := range []string{a.Password, o.Sentinel.Password} {
		if secret != "" {
			d.secret = append(d.secret, secret)
		}
	}
	d.dialer = newDialer(o.Dialer.Timeout, silence(&o))
	o.DialCtxFn = d.dialer.dial
	start := time.Now()
	if d.client, err = connect(ctx, d.dialer, o); err != nil {
		_, refused := errors.AsType[*rueidis.RedisError](err)
		_, named := errors.AsType[*dialError](err)
		if !refused && !named {
			err = &dialError{strings.Join(o.InitAddress, ","), time.Since(start), foreign(err)}
		}
		switch {
		case ctx.Err() != nil:
			err = driver.Ended(ctx, false)
		case rueidis.IsRedisNil(err) || refused && strings.Contains(err.Error(), "No such master"):
			err = driver.Refused(fmt.Errorf("sentinel at %s knows no primary named %q", strings.Join(o.InitAddress, ","), o.Sentinel.MasterSet))
		default:
			err = d.explain(ctx, err)
		}
		d.cancel()
		return nil, err
	}
	if err := d.isCluster(ctx, a.Scheme); err != nil {
		d.Close()
		return nil, err
	}
	if err := d.probe(ctx); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// isCluster makes sure that the client of a cluster is one: with a single host the library makes the client of one server
// where that does not tell of the others, and most names are not on it.
func (d *Driver) isCluster(ctx context.Context, scheme string) error {
	if !strings.HasSuffix(scheme, "+cluster") || d.client.Mode() == rueidis.ClientModeCluster {
		return nil
	}
	ask, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	for _, about := range []string{"SLOTS", "SHARDS"} {
		err := d.client.Do(ask, d.client.B().Arbitrary("CLUSTER", about).Build()).Error()
		refusal, refused := errors.AsType[*rueidis.RedisError](err)
		switch {
		case refused && strings.Contains(refusal.Error(), "cluster support disabled"):
			return driver.Refused(fmt.Errorf("redis is no cluster here: use %s://", strings.TrimSuffix(scheme, "+cluster")))
		case err != nil:
			return d.explain(ctx, err)
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
		m = <-done
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

// clientOption translates an address. Retries are off: the driver's caller knows better when to give up.
func clientOption(a *driver.Address) (o rueidis.ClientOption, prefix string, err error) {
	o = rueidis.ClientOption{
		Username: a.User, Password: a.Password, ClientName: "stile",
		DisableCache: true, DisableRetry: true,
		PipelineMultiplex:  -1, // one connection: what many goroutines send at once travels together
		MaxFlushDelay:      flushDelay,
		ConnWriteTimeout:   patience,
		ReadBufferEachConn: smallBuffer, WriteBufferEachConn: smallBuffer,
	}
	prefix = a.Param("prefix", DefaultPrefix)
	dialTimeout := defaultDialTimeout
	if strings.HasSuffix(a.Scheme, "+sentinel") {
		dialTimeout = sentinelDialTimeout
	}
	if o.Dialer.Timeout, err = a.Duration("dial_timeout", dialTimeout); err != nil {
		return o, "", err
	}
	o.Dialer.KeepAlive = keepAlive
	scheme := strings.Replace(a.Scheme, "tair", "redis", 1) // whose protocol Tair speaks
	if rest, ok := strings.CutPrefix(scheme, "rediss"); ok {
		scheme = "redis" + rest
		if o.TLSConfig, err = secure.Config(a); err != nil {
			return o, "", err
		}
	}
	switch scheme {
	case "redis":
		o.ForceSingleClient = true
		o.InitAddress = a.HostPorts("127.0.0.1", "6379")
		if len(o.InitAddress) > 1 {
			return o, "", fmt.Errorf("%s:// takes one host; for more there are %[1]s+sentinel:// and %[1]s+cluster://", a.Scheme)
		}
		o.SelectDB, err = database(a.Path)
	case "redis+sentinel":
		master, db, _ := strings.Cut(a.Path, "/")
		if master == "" {
			return o, "", fmt.Errorf("%s:// needs the name of the primary, as in %[1]s://host/mymaster", a.Scheme)
		}
		o.InitAddress = a.HostPorts("127.0.0.1", "26379")
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: master, TopologyRefreshInterval: topology, Dialer: o.Dialer, TLSConfig: o.TLSConfig,
			Username: a.Param("sentinel_user", ""), Password: a.Param("sentinel_password", ""),
		}
		o.SelectDB, err = database(db)
	case "redis+cluster":
		o.InitAddress = a.HostPorts("127.0.0.1", "6379")
		if a.Path != "" {
			err = errors.New("a redis cluster has no databases: leave out what follows the hosts")
		}
	}
	if err != nil {
		return o, "", err
	}
	return o, prefix, a.Done()
}

// silence is for how long a connection may owe an answer.
func silence(o *rueidis.ClientOption) time.Duration {
	if o.Sentinel.MasterSet != "" {
		return hung
	}
	return patience
}

func database(path string) (int, error) {
	if path == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(path)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("the database must be a number, not %q", path)
	}
	return n, nil
}
