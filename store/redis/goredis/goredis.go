// Package goredis keeps locks in the Redis that a program's go-redis client is connected to:
//
//	driver, err := goredis.Open(ctx, rdb, nil)
//	…
//	locks, err := stile.New(driver, nil)
//
// The driver has connections of its own, since a lock needs other connections than commands do: they carry many requests at
// a time, a request is never repeated without stile's knowledge, and a silent connection is given up before a lease runs
// out. The driver copies all options that lead to the servers: addresses, Sentinel or cluster, user and password or their
// source, database, TLS, and the bound of connecting. Sizes of pools, timeouts of reads and writes, retries, the protocol's
// version, and the choice of the server to read from concern commands only; the driver has its own.
//
// If an option would change the way to the servers and cannot be copied, the error names it: a dialer, OnConnect, a limiter,
// hooks, and others.
package goredis

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
	"github.com/stilelock/stile/driver"
	stileredis "github.com/stilelock/stile/store/redis"
)

// Options change how the driver uses the servers. Nil means the defaults, and so does the zero of each field.
type Options struct {
	Prefix string // the beginning of keys and channels, "stile/" by default; without braces

	// IgnoreHooks accepts a client with hooks, such as hooks that trace or count commands. They do not see the driver's
	// requests.
	IgnoreHooks bool
}

// Open connects to the servers of a client of one server, or of a cluster. Closing the driver does not close the client, nor
// the other way round. Only the options with which the client was made count, not later changes.
//
// A client by [redis.NewFailoverClient] does not show its Sentinels: see [OpenFailover]. A [redis.Ring] is refused: its
// shards are servers that do not know each other, and [github.com/stilelock/stile/store/shard] is for them.
func Open(ctx context.Context, client redis.UniversalClient, o *Options) (*stileredis.Driver, error) {
	if o == nil {
		o = &Options{}
	}
	var (
		servers *stileredis.Servers
		err     error
	)
	switch c := client.(type) {
	case *redis.Client:
		if c == nil {
			return nil, refused("the client is nil")
		}
		servers, err = single(c.Options())
	case *redis.ClusterClient:
		if c == nil {
			return nil, refused("the client is nil")
		}
		servers, err = cluster(c.Options())
	case nil:
		return nil, refused("the client is nil")
	default:
		return nil, refused(fmt.Sprintf("a %T is not supported: want a *redis.Client or a *redis.ClusterClient", client))
	}
	if err == nil && !o.IgnoreHooks {
		err = unhooked(client)
	}
	if err != nil {
		return nil, driver.Refused(err)
	}
	return stileredis.Dial(ctx, servers, &stileredis.Options{Prefix: o.Prefix})
}

// OpenFailover connects to the servers to which [redis.NewFailoverClient] and [redis.NewFailoverClusterClient] would lead.
// It always uses the primary.
func OpenFailover(ctx context.Context, failover *redis.FailoverOptions, o *Options) (*stileredis.Driver, error) {
	if o == nil {
		o = &Options{}
	}
	if failover == nil {
		return nil, refused("the failover options are nil")
	}
	servers, err := behindSentinel(failover)
	if err != nil {
		return nil, driver.Refused(err)
	}
	return stileredis.Dial(ctx, servers, &stileredis.Options{Prefix: o.Prefix})
}

func refused(text string) error { return driver.Refused(errors.New("goredis: " + text)) }

// single returns the server of a client of one server.
func single(o *redis.Options) (*stileredis.Servers, error) {
	if o.Addr == "FailoverClient" {
		return nil, errors.New("goredis: a client by NewFailoverClient does not tell its Sentinels: " +
			"give goredis.OpenFailover the FailoverOptions")
	}
	err := firstSet([]setting{
		{"Network " + o.Network, o.Network != "" && o.Network != "tcp"},
		{"Dialer", ownDialer(o.Dialer)},
		{"OnConnect", o.OnConnect != nil},
		{"Limiter", o.Limiter != nil},
		{"StreamingCredentialsProvider", o.StreamingCredentialsProvider != nil},
	})
	return &stileredis.Servers{
		Addrs: []string{o.Addr}, Database: o.DB,
		User: o.Username, Password: o.Password, Credentials: credentials(o.CredentialsProviderContext, o.CredentialsProvider),
		TLS: o.TLSConfig, DialTimeout: o.DialTimeout,
	}, err
}

func cluster(o *redis.ClusterOptions) (*stileredis.Servers, error) {
	err := firstSet([]setting{
		{"ClusterSlots", o.ClusterSlots != nil},
		{"NewClient", ownNewClient(o.NewClient)},
		{"Dialer", ownDialer(o.Dialer)},
		{"OnConnect", o.OnConnect != nil},
		{"StreamingCredentialsProvider", o.StreamingCredentialsProvider != nil},
	})
	return &stileredis.Servers{
		Addrs: slices.Clone(o.Addrs), Cluster: true,
		User: o.Username, Password: o.Password, Credentials: credentials(o.CredentialsProviderContext, o.CredentialsProvider),
		TLS: o.TLSConfig, DialTimeout: o.DialTimeout,
	}, err
}

func behindSentinel(o *redis.FailoverOptions) (*stileredis.Servers, error) {
	err := firstSet([]setting{
		{"ReplicaOnly", o.ReplicaOnly},
		{"Dialer", o.Dialer != nil},
		{"OnConnect", o.OnConnect != nil},
		{"StreamingCredentialsProvider", o.StreamingCredentialsProvider != nil},
	})
	if err == nil && o.MasterName == "" {
		err = errors.New("goredis: MasterName is empty: Sentinel is asked for a primary by its name")
	}
	return &stileredis.Servers{
		Addrs: slices.Clone(o.SentinelAddrs), Primary: o.MasterName, Database: o.DB,
		SentinelUser: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		User: o.Username, Password: o.Password, Credentials: credentials(o.CredentialsProviderContext, o.CredentialsProvider),
		TLS: o.TLSConfig, DialTimeout: o.DialTimeout,
	}, err
}

// A setting is an option that cannot be copied, and whether it is set.
type setting struct {
	name string
	set  bool
}

func firstSet(list []setting) error {
	for _, s := range list {
		if s.set {
			return fmt.Errorf("goredis: the client's option %s cannot be carried over to the connections of the locks: "+
				"open them by a URL, or by a client of their own without it", s.name)
		}
	}
	return nil
}

// credentials asks the first credentials provider, as go-redis does.
func credentials(
	first func(context.Context) (string, string, error), second func() (string, string),
) func(context.Context) (user, password string, err error) {
	switch {
	case first != nil:
		return first
	case second != nil:
		return func(context.Context) (user, password string, err error) {
			user, password = second()
			return user, password, nil
		}
	}
	return nil
}
