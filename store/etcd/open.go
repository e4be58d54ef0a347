package etcd

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/secure"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

const (
	defaultHost, defaultPort = "127.0.0.1", "2379"
	defaultDialTimeout       = 5 * time.Second

	// pingAfter is how long a connection may be silent before the client pings the server, and pingWithin how long the
	// answer may take. A server ends a connection that pings more often, or pings while no call and no stream is open. The
	// library reports this on the process's standard error.
	pingAfter  = 10 * time.Second
	pingWithin = 4 * time.Second

	// tries is how often the client sends a request that it may repeat: once more with a new login, and once more to
	// another member.
	tries = 3
)

func init() {
	for _, scheme := range []string{"etcd", "etcds"} {
		driver.Register(scheme, func(ctx context.Context, a *driver.Address) (driver.Driver, error) {
			d, err := Open(ctx, a)
			if err != nil {
				return nil, err
			}
			return d, nil
		})
	}
}

// Open connects to the etcd at an address:
//
//	etcd://[user:password@]host[:2379],…
//
// The scheme etcds uses TLS. Parameters: prefix, dial_timeout; with TLS, the files tls_ca, tls_cert and tls_key, and
// tls_server_name. An empty prefix (prefix=) makes keys begin with the name. An invalid address is [driver.Refused].
func Open(ctx context.Context, a *driver.Address) (*Driver, error) {
	config, prefix, err := configOf(a)
	if err != nil {
		return nil, driver.Refused(err)
	}
	servers := &secure.Servers{
		Store: "etcd", Hosts: a.HostPorts(defaultHost, defaultPort), TLS: config.TLS != nil,
		Scheme: a.Scheme, Instead: "etcds", Greeting: "GET /version HTTP/1.0\r\n\r\n",
	}
	if servers.TLS {
		servers.Instead = "etcd"
	}
	return secure.Open(ctx, servers, func(ctx context.Context) (*Driver, error) {
		d := newDriver(prefix)
		d.wire.user, d.wire.secret = a.User, a.Password
		client, login, err := connect(ctx, config)
		if err != nil {
			err = d.wire.explain(ctx, err)
			d.life.End()
			return nil, err
		}
		d.owned = []*clientv3.Client{client, login}
		d.use(client)
		if err := d.probe(ctx); err != nil {
			d.Close()
			return nil, err
		}
		return d, nil
	})
}

// connect makes a client, and a second client without a user, which sends the logins of the first. Servers before 3.5
// refuse a login that carries an expired token, and a single client would repeat such a login without end. connect ends
// when ctx ends.
func connect(ctx context.Context, config clientv3.Config) (client, login *clientv3.Client, err error) {
	var cancel context.CancelFunc
	config.Context, cancel = context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	anonymous := config
	anonymous.Username, anonymous.Password = "", ""
	if login, err = clientv3.New(anonymous); err == nil {
		config.DialOptions = append(config.DialOptions, grpc.WithChainUnaryInterceptor(loginBy(login)))
		client, err = clientv3.New(config)
	}
	if err == nil && !stop() {
		err = driver.Ended(ctx, false)
	}
	if err != nil {
		cancel() // ends the clients
		return nil, nil, err
	}
	return client, login, nil
}

// loginBy sends logins through another client.
func loginBy(login *clientv3.Client) grpc.UnaryClientInterceptor {
	return func(
		ctx context.Context, method string, req, reply any, c *grpc.ClientConn, call grpc.UnaryInvoker, o ...grpc.CallOption,
	) error {
		if method == pb.Auth_Authenticate_FullMethodName {
			return login.ActiveConnection().Invoke(ctx, method, req, reply)
		}
		return call(ctx, method, req, reply, c, o...)
	}
}

// configOf translates an address.
func configOf(a *driver.Address) (c clientv3.Config, prefix string, err error) {
	c = clientv3.Config{
		Endpoints: a.HostPorts(defaultHost, defaultPort), Username: a.User, Password: a.Password,
		DialKeepAliveTime: pingAfter, DialKeepAliveTimeout: pingWithin, PermitWithoutStream: false,
		MaxUnaryRetries: tries, Logger: zap.NewNop(),
	}
	prefix = a.Param("prefix", DefaultPrefix)
	if c.DialTimeout, err = a.Duration("dial_timeout", defaultDialTimeout); err != nil {
		return c, "", err
	}
	c.DialOptions = []grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second,
			},
			MinConnectTimeout: c.DialTimeout,
		}),
		grpc.WithChainUnaryInterceptor(failFast),
	}
	for i, h := range c.Endpoints {
		c.Endpoints[i] = endpoint(a.Scheme, h)
	}
	if len(c.Endpoints) > 1 {
		c.DialOptions = append(c.DialOptions, elsewhereOptions()...)
	}
	if a.Path != "" {
		return c, "", errors.New("etcd has no databases: leave out what follows the hosts")
	}
	if (a.User == "") != (a.Password == "") {
		return c, "", errors.New("etcd takes a user and a password together")
	}
	if a.Scheme == "etcds" {
		if c.TLS, err = secure.Config(a); err != nil {
			return c, "", err
		}
	}
	return c, prefix, a.Done()
}

// endpoint returns an address as etcd's client takes it: the client takes an address with a zone only in a URL.
func endpoint(scheme, hostPort string) string {
	if !strings.Contains(hostPort, "%") {
		return hostPort
	}
	u := url.URL{Scheme: "http", Host: hostPort}
	if scheme == "etcds" {
		u.Scheme = "https"
	}
	return u.String()
}

// failFast makes a call fail when there is no connection, instead of waiting for one. The driver's caller knows better
// when to give up, and learns the reason.
func failFast(
	ctx context.Context, method string, req, reply any, c *grpc.ClientConn, call grpc.UnaryInvoker, o ...grpc.CallOption,
) error {
	return call(ctx, method, req, reply, c, append(o, grpc.WaitForReady(false))...)
}
