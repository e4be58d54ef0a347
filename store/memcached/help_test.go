package memcached

import (
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// store is the interface of both layouts.
type store interface {
	driver.Driver
	driver.Lister
	driver.Breaker
	driver.Alerter
}

// layouts are the parameters of both layouts.
var layouts = map[string]string{"queue": "", "plain": "?layout=plain"}

func open(t testing.TB, addr, parameters string) store {
	t.Helper()
	d, err := driver.Open(timely(t), "memcached://"+addr+parameters)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d.(store)
}

// eachLayout runs a test for both layouts, each with a server of its own.
func eachLayout(t *testing.T, args []string, test func(t *testing.T, s *servertest.Server, parameters string)) {
	t.Parallel()
	for layout, parameters := range layouts {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			test(t, servertest.Memcached(t, args...), parameters)
		})
	}
}

func claim(name, id string) *driver.Claim {
	return &driver.Claim{
		Name: name, ID: id, Client: "client of " + id, Weight: driver.All, Capacity: driver.All,
		TTL: time.Minute, Wait: time.Minute, Record: "record of " + id,
	}
}

func leave(t testing.TB, d driver.Driver, c *driver.Claim) error {
	t.Helper()
	return d.Leave(timely(t), &driver.Release{Claim: c})
}

// gone fails unless every verb reports the claim gone.
func gone(t testing.TB, d driver.Driver, c *driver.Claim) {
	t.Helper()
	_, err := d.Enter(timely(t), c)
	for verb, err := range map[string]error{"enter": err, "renew": renew(t, d, c), "leave": leave(t, d, c)} {
		if !errors.Is(err, driver.ErrGone) {
			t.Errorf("%s of %s = %v; want ErrGone", verb, c.ID, err)
		}
	}
}
