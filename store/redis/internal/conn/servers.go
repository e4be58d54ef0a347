package conn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// Servers are the servers of a program that names them without a URL. There is one server, unless Primary or Cluster is set.
// The zero values of the other fields mean the same as in a URL.
type Servers struct {
	Addrs    []string // host:port of the server, of every Sentinel, or of some servers of the cluster
	Primary  string   // the name by which the Sentinels know the primary
	Cluster  bool
	Database int // none in a cluster

	User, Password                 string
	SentinelUser, SentinelPassword string
	// Credentials is asked for user and password at each connecting, in place of User and Password; nil means that these are
	// used.
	Credentials func(context.Context) (user, password string, err error)

	TLS         *tls.Config // nil means none; Sentinels get the same
	DialTimeout time.Duration
}

// Dial connects to the servers.
func Dial(ctx context.Context, s *Servers) (*Conn, error) {
	if err := s.check(); err != nil {
		return nil, driver.Refused(err)
	}
	scheme, dialTimeout := "redis", defaultDialTimeout
	o := ordinary()
	o.InitAddress, o.Username, o.Password, o.SelectDB = slices.Clone(s.Addrs), s.User, s.Password, s.Database
	if s.TLS != nil {
		scheme, o.TLSConfig = "rediss", s.TLS.Clone()
	}
	if s.Credentials != nil {
		o.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			ctx, cancel := context.WithTimeout(context.Background(), o.Dialer.Timeout)
			defer cancel()
			user, password, err := s.Credentials(ctx)
			return rueidis.AuthCredentials{Username: user, Password: password}, err
		}
	}
	if s.Primary != "" {
		dialTimeout = sentinelDialTimeout
	}
	o.Dialer.Timeout = cmp.Or(s.DialTimeout, dialTimeout)
	switch {
	case s.Cluster:
		scheme += "+cluster"
	case s.Primary != "":
		scheme += "+sentinel"
		o.Sentinel = sentinel(&o, s.Primary, s.SentinelUser, s.SentinelPassword)
	default:
		o.ForceSingleClient = true
	}
	return open(ctx, scheme, o)
}

func (s *Servers) check() error {
	switch {
	case len(s.Addrs) == 0 || slices.Contains(s.Addrs, ""):
		return fmt.Errorf("addresses %q: want host:port, at least one", s.Addrs)
	case s.Cluster && s.Primary != "":
		return errors.New("a cluster has no Sentinel: leave out Cluster or Primary")
	case s.Cluster && s.Database != 0:
		return fmt.Errorf("a redis cluster has no databases: leave out %d", s.Database)
	case s.Database < 0:
		return fmt.Errorf("the database must be a number from 0 on, not %d", s.Database)
	case !s.Cluster && s.Primary == "" && len(s.Addrs) > 1:
		return fmt.Errorf("addresses %q: one server has one; more are a cluster's, or those of Sentinels", s.Addrs)
	case s.DialTimeout < 0:
		return fmt.Errorf("the dial timeout must not be negative, as %v is", s.DialTimeout)
	}
	return nil
}
