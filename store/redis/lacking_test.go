package redis_test

import (
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// lacking opens clients of users with few rights, on servers of their own; url returns the URL of a user there.
func lacking(
	servers func(testing.TB) []*servertest.Server, url func(user string, servers []*servertest.Server) string, rights map[string][]string,
) map[string]func(testing.TB) func() (driver.Driver, error) {
	all := map[string]func(testing.TB) func() (driver.Driver, error){}
	var list []*servertest.Server // the same servers for all, one after the other
	for what, may := range rights {
		all[what] = func(t testing.TB) func() (driver.Driver, error) {
			if list == nil {
				list = servers(t)
			}
			for _, s := range list {
				s.Redis(append([]string{"ACL", "SETUSER", "locks", "reset", "on", ">secret"}, may...))
			}
			return func() (driver.Driver, error) { return driver.Open(drive.Timely(t), url("locks:secret@", list)) }
		}
	}
	return all
}

// lackingOne is lacking for one server.
func lackingOne(parameters string) map[string]func(testing.TB) func() (driver.Driver, error) {
	return lacking(
		func(t testing.TB) []*servertest.Server { return []*servertest.Server{servertest.Redis(t)} },
		func(user string, list []*servertest.Server) string {
			return "redis://" + user + list[0].Addr + parameters
		},
		map[string][]string{
			"the keys":    {"~other/*", "&*", "+@all"},
			"scripts":     {"~*", "&*", "+@all", "-@scripting"},
			"writing":     {"~*", "&*", "+@all", "-@write"},
			"any command": {"~*", "&*"},
		},
	)
}

// lackingInCluster is lacking for a cluster whose user may not list the servers.
func lackingInCluster(parameters string) map[string]func(testing.TB) func() (driver.Driver, error) {
	return lacking(
		func(t testing.TB) []*servertest.Server { return servertest.RedisCluster(t) },
		func(user string, list []*servertest.Server) string {
			return "redis+cluster://" + user + list[0].Addr + parameters
		},
		map[string][]string{"the list of servers": {"~*", "&*", "+@all", "-cluster"}},
	)
}
