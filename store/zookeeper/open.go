package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/secure"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

const defaultSession = 10 * time.Second

func init() {
	for _, scheme := range []string{"zk", "zks"} {
		driver.Register(scheme, func(ctx context.Context, a *driver.Address) (driver.Driver, error) {
			d, err := Open(ctx, a)
			if err != nil {
				return nil, err
			}
			return d, nil
		})
	}
}

// Open connects to the ensemble at an address:
//
//	zk://[user:password@]host[:2181],…[/chroot]
//
// The scheme zks in place of zk connects by TLS. The parameters are prefix; session, for how long the ensemble keeps a
// session without a sign of life, 10 seconds by default; layout, mutex, rw, latch or semaphore; acl, open or creator, which
// is the default with a user; and with TLS, the files tls_ca, tls_cert and tls_key, and tls_server_name.
func Open(ctx context.Context, a *driver.Address) (*Driver, error) {
	d := newDriver()
	if err := d.configure(a); err != nil {
		d.zk.Life.End()
		return nil, driver.Refused(err)
	}
	servers := &secure.Servers{
		Store: "zookeeper", Hosts: d.zk.Conf.Hosts, TLS: d.zk.Conf.TLS != nil, Scheme: a.Scheme, Instead: "zks", Greeting: "srvr",
	}
	if servers.TLS {
		servers.Instead = "zk"
	}
	_, err := secure.Open(ctx, servers, func(ctx context.Context) (struct{}, error) { return struct{}{}, d.probe(ctx) })
	if err != nil {
		_ = d.Close() // it was not open
		return nil, err
	}
	d.line.Begins()
	return d, nil
}

// configure reads the parameters of an address.
func (d *Driver) configure(a *driver.Address) error {
	d.zk.User = a.User
	d.zk.Conf.Hosts = a.HostPorts("127.0.0.1", "2181")
	if a.User != "" || a.Password != "" {
		if a.User == "" || strings.Contains(a.User, ":") {
			return errors.New("digest authentication needs a user, without a colon in it, and a password")
		}
		d.zk.Conf.Digest, d.zk.ACL = a.User+":"+a.Password, wire.Creator
	}
	var err error
	if d.zk.Conf.Timeout, err = a.Duration("session", defaultSession); err != nil {
		return err
	}
	if d.zk.Conf.Timeout < time.Millisecond || d.zk.Conf.Timeout > driver.MaxTTL {
		return fmt.Errorf("parameter session must be from 1ms to %v", driver.MaxTTL)
	}
	if err := d.configurePaths(a); err != nil {
		return err
	}
	if err := d.configureNodes(a); err != nil {
		return err
	}
	if a.Scheme == "zks" {
		if d.zk.Conf.TLS, err = secure.Config(a); err != nil {
			return err
		}
	}
	return a.Done()
}

// configurePaths reads the chroot and the prefix.
func (d *Driver) configurePaths(a *driver.Address) error {
	if path := strings.TrimSuffix(a.Path, "/"); path != "" {
		d.zk.Chroot = "/" + path
	}
	if err := checkPath(d.zk.Chroot); err != nil {
		return fmt.Errorf("the chroot %w", err)
	}
	prefix := a.Param("prefix", DefaultPrefix)
	if err := checkPath("/" + prefix + "x"); err != nil {
		return fmt.Errorf("parameter prefix %w", err)
	}
	d.zk.Prefix = d.zk.Chroot + "/" + prefix
	if d.zk.Conf.Path = d.zk.Chroot; d.zk.Chroot == "" {
		d.zk.Conf.Path = "/"
	}
	return nil
}

// configureNodes reads the layout and the access list.
func (d *Driver) configureNodes(a *driver.Address) error {
	switch text := a.Param("layout", "mutex"); text {
	case "mutex":
	case "rw":
		d.choose(znode.ReadWrite)
	case "latch":
		d.choose(znode.Latch)
	case "semaphore":
		d.choose(znode.Semaphore)
	default:
		return fmt.Errorf("parameter layout is mutex, rw, latch or semaphore, not %q", text)
	}
	switch text := a.Param("acl", ""); text {
	case "":
	case "open":
		d.zk.ACL = wire.Open
	case "creator":
		if d.zk.ACL = wire.Creator; d.zk.Conf.Digest == "" {
			return errors.New("parameter acl: an access list for the creator alone needs a user and a password")
		}
	default:
		return fmt.Errorf("parameter acl is open or creator, not %q", text)
	}
	return nil
}

// checkPath returns why ZooKeeper has no such path, or nil. The path is empty or begins with a slash.
func checkPath(path string) error {
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		switch {
		case path == "":
		case segment == "":
			return errors.New("has an empty part: it must neither begin with a slash nor have two in a row")
		case segment == "." || segment == "..":
			return errors.New("must not have a part that is . or .. alone")
		case driver.CheckName(segment) != nil:
			return driver.CheckName(segment)
		}
	}
	return nil
}
