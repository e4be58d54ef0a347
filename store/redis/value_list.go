package redis

import (
	"context"
	"errors"
	"strings"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

// List is [driver.Lister]. For one name it shows any holder. For a prefix it shows only stile's locks, since any string in
// the database could be another library's lock.
func (s *valueLock) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	if q.Name != "" {
		a, err := s.conn.Run(ctx, s.scripts.look, s.key(q.Name), "", "")
		return listed(nil, q.Name, a), err
	}
	keys, err := s.conn.Keys(ctx, s.prefix+q.Prefix, conn.Literal(s.prefix+q.Prefix)+"*")
	if err != nil {
		return nil, err
	}
	requests := make([]conn.Request, len(keys))
	for i, key := range keys {
		requests[i] = conn.Request{Key: key, Args: []string{"own"}}
	}
	var all []driver.Listing
	s.conn.RunAll(ctx, s.scripts.look, requests, func(i int, a conn.Answer, e error) {
		if e != nil && !errors.Is(e, driver.ErrForeign) {
			err = e
			return
		}
		all = listed(all, strings.TrimPrefix(keys[i], s.prefix), a)
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func listed(all []driver.Listing, name string, a conn.Answer) []driver.Listing {
	claims := a.Standings(0)
	if len(claims) == 0 || driver.CheckName(name) != nil {
		return all
	}
	return append(all, driver.Listing{Name: name, Capacity: driver.All, Claims: claims})
}
