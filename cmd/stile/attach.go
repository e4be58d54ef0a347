package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/exit"
	"github.com/stilelock/stile/cmd/stile/internal/page"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/driver"
)

// detach leaves the lease to whoever has the handle, and tells until when it can be trusted.
func detach(ctx context.Context, c *stile.Client, lease *stile.Lease) (time.Time, stile.Handle, error) {
	sent := time.Now()
	h, err := lease.Detach(ctx)
	if err != nil {
		return time.Time{}, h, err
	}
	// As the library reckons: a clock's drift, the store's granularity, and a margin.
	trust := h.TTL - h.TTL/100 - c.Traits().Granularity - min(h.TTL/10, time.Second)
	return sent.Add(trust), h, nil
}

// attach opens the store and takes up the claim of the grant.
func (sc *script) attach(ctx context.Context) (*stile.Client, *stile.Lease, error) {
	address, _, err := sc.Address()
	if err != nil {
		return nil, nil, err
	}
	m, err := sc.find(address)
	if err != nil {
		return nil, nil, err
	}
	if sc.file, err = sc.read(address, m); err != nil {
		return nil, nil, err
	}
	sc.path = m.path
	h, err := sc.file.handle()
	if err != nil {
		return nil, nil, exit.Usage("--handle %s: %w", m.path, err)
	}
	c, err := sc.Open(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	lease, err := c.Attach(ctx, h)
	return c, lease, err
}

// read reads the handle, and sees that it is that of the grant that is meant.
func (sc *script) read(a *driver.Address, m meant) (*handleFile, error) {
	file, err := readHandle(m.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, over("there is no handle %s: the grant was unlocked, or it was lost and its handle cleared away", m.path)
	case err != nil:
		return nil, exit.Usage("--handle %s: %w", m.path, err)
	case sc.named != "" && sc.named != file.Name:
		return nil, exit.Usage("%s is the handle of %q, not of %q", m.path, file.Name, sc.named)
	case file.Store != storeID(a):
		return nil, exit.Usage("%s is for the store %s, but --url or %s says %s", m.path, file.Store, store.URLVariable, storeID(a))
	}
	if had, set, err := variable(a, file.Name); m.token == "" && set && err == nil && had.path == m.path {
		m.token = had.token // this shell had a grant in that file
	}
	if m.token != "" && m.token != file.Token {
		return nil, over("%s is the handle of another grant by now, with token %s: that with token %s is over", m.path, file.Token, m.token)
	}
	return file, nil
}

// find returns the grant that is meant: never whatever grant the name has now.
func (sc *script) find(a *driver.Address) (meant, error) {
	if sc.path != "" {
		return meant{path: sc.path}, nil
	}
	if sc.tokenSet {
		for _, g := range grants() {
			if g.file.Token == sc.token && g.file.Name == sc.named && g.file.Store == storeID(a) {
				return meant{g.path, sc.token}, nil
			}
		}
		return meant{}, over("%q has no grant of yours with token %s: it was unlocked or lost, or it is of another user, --handle or store",
			sc.named, page.Printable(sc.token))
	}
	m, set, err := variable(a, sc.named)
	if err == nil && !set {
		err = exit.Usage("which grant of %q? %s is not set here: eval what stile lock prints, or give --token or --handle; %s",
			sc.named, grantVariable(a, sc.named), sc.listed(a))
	}
	return m, err
}

// mostListed is how many grants are named in a message.
const mostListed = 5

// listed names the user's grants of the name, for a message.
func (sc *script) listed(a *driver.Address) string {
	var list []string
	for _, g := range grants() {
		if g.file.Name == sc.named && g.file.Store == storeID(a) {
			list = append(list, fmt.Sprintf("--token %s (renewed %v ago)", g.file.Token, time.Since(g.renewed).Round(time.Second)))
		}
	}
	switch n := len(list); {
	case n == 0:
		return "you have no grant of it in " + storeID(a)
	case n > mostListed:
		return fmt.Sprintf("yours are %s and %d more", strings.Join(list[:mostListed], ", "), n-mostListed)
	case n == 1:
		return "yours is " + list[0]
	default:
		return "yours are " + strings.Join(list, ", ")
	}
}

// over says that a grant is over: there is nothing to act on.
func over(format string, args ...any) error { return exit.With(exit.Lost, fmt.Errorf(format, args...)) }
