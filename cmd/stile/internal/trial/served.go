package trial

import (
	"context"
	"sync"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/remote"
)

// A service is one of the lock services that a URL names, and whether it serves this client by itself.
type service struct {
	host string
	way  string // how the client reaches it
	fail error
}

// services asks each of the lock services of a URL by itself: a client that has an answer from one of them does not notice that
// the others are gone. The result is empty for a store that is asked directly.
func services(ctx context.Context, a *driver.Address) []service {
	way := "by plain HTTP"
	switch a.Scheme {
	case "stile":
	case "stiles":
		way = "by TLS"
	default:
		return nil
	}
	if a.Password != "" || a.Param("token_file", "") != "" {
		way += ", with a token"
	}
	hosts := a.HostPorts("127.0.0.1", remote.DefaultPort)
	all := make([]service, len(hosts))
	var asking sync.WaitGroup
	for i, host := range hosts {
		all[i] = service{host: host, way: way}
		one := a.At(a.Scheme, host)
		asking.Go(func() {
			d, err := remote.Open(ctx, one)
			if err != nil {
				all[i].fail = err
				return
			}
			_ = d.Close() // nothing was written
		})
	}
	asking.Wait()
	return all
}

// answers describes a service for a person.
func (s *service) answers() string {
	if s.fail != nil {
		return s.host + " does not serve"
	}
	return s.host + ", " + s.way
}

// warn adds a warning for each service that does not serve.
func warn(t *driver.Traits, services []service) {
	for i := range services {
		if s := &services[i]; s.fail != nil {
			t.Warn("a service there, or a URL without this host", "One of the lock services does not serve: %v.", s.fail)
		}
	}
}
