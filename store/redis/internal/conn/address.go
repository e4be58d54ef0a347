package conn

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/secure"
)

// clientOption translates an address.
func clientOption(a *driver.Address) (o rueidis.ClientOption, err error) {
	o = ordinary()
	o.Username, o.Password = a.User, a.Password
	dialTimeout := defaultDialTimeout
	if strings.HasSuffix(a.Scheme, "+sentinel") {
		dialTimeout = sentinelDialTimeout
	}
	if o.Dialer.Timeout, err = a.Duration("dial_timeout", dialTimeout); err != nil {
		return o, err
	}
	scheme := strings.NewReplacer("tair", "redis", "redlock", "redis").Replace(a.Scheme) // all of them speak Redis' protocol
	if rest, ok := strings.CutPrefix(scheme, "rediss"); ok {
		scheme = "redis" + rest
		if o.TLSConfig, err = secure.Config(a); err != nil {
			return o, err
		}
	}
	if err = locate(a, scheme, &o); err != nil {
		return o, err
	}
	return o, a.Done()
}

// locate sets the addresses of the servers, and all options that depend on how the servers are found.
func locate(a *driver.Address, scheme string, o *rueidis.ClientOption) (err error) {
	switch scheme {
	case "redis":
		o.ForceSingleClient = true
		o.InitAddress = a.HostPorts("127.0.0.1", "6379")
		if len(o.InitAddress) > 1 {
			return fmt.Errorf("%s:// takes one host; for more there are %[1]s+sentinel:// and %[1]s+cluster://", a.Scheme)
		}
		o.SelectDB, err = database(a.Path)
	case "redis+sentinel":
		master, db, _ := strings.Cut(a.Path, "/")
		if master == "" {
			return fmt.Errorf("%s:// needs the name of the primary, as in %[1]s://host/mymaster", a.Scheme)
		}
		o.InitAddress = a.HostPorts("127.0.0.1", "26379")
		o.Sentinel = sentinel(o, master, a.Param("sentinel_user", ""), a.Param("sentinel_password", ""))
		o.SelectDB, err = database(db)
	case "redis+cluster":
		o.InitAddress = a.HostPorts("127.0.0.1", "6379")
		if a.Path != "" {
			err = errors.New("a redis cluster has no databases: leave out what follows the hosts")
		}
	}
	return err
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
