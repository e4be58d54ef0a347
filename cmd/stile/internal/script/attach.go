package script

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/grant"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/phrase"
)

// detach leaves the lease to the owner of the handle, and returns until when it can be trusted.
func detach(ctx context.Context, c *stile.Client, lease *stile.Lease) (time.Time, stile.Handle, error) {
	sent := time.Now()
	h, err := lease.Detach(ctx)
	if err != nil {
		return time.Time{}, h, err
	}
	// The library's calculation: a clock's drift, the store's granularity, and a margin.
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
	sc.path = m.Path
	h, err := sc.file.Handle()
	if err != nil {
		return nil, nil, exit.Usage("--handle %s: %w", m.Path, err)
	}
	c, err := sc.Open(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	lease, err := c.Attach(ctx, h)
	return c, lease, err
}

// read reads the handle, and checks that it belongs to the meant grant.
func (sc *script) read(a *driver.Address, m grant.Meant) (*grant.File, error) {
	file, err := grant.Read(m.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, over("there is no handle %s: the grant was unlocked, or it was lost and its handle cleared away", m.Path)
	case err != nil:
		return nil, exit.Usage("--handle %s: %w", m.Path, err)
	case sc.named != "" && sc.named != file.Name:
		return nil, exit.Usage("%s is the handle of %q, not of %q", m.Path, file.Name, sc.named)
	case file.Store != grant.StoreID(a):
		return nil, exit.Usage("%s is for the store %s, but --url or %s says %s", m.Path, file.Store, store.URLVariable,
			grant.StoreID(a))
	}
	if had, set, err := grant.Variable(a, file.Name); m.Token == "" && set && err == nil && had.Path == m.Path {
		m.Token = had.Token // this shell had a grant in that file
	}
	if m.Token != "" && m.Token != file.Token {
		return nil, over("%s is the handle of another grant by now, with token %s: that with token %s is over", m.Path, file.Token,
			m.Token)
	}
	return file, nil
}

// find returns the meant grant, never just the grant that the name has now.
func (sc *script) find(a *driver.Address) (grant.Meant, error) {
	if sc.path != "" {
		return grant.Meant{Path: sc.path}, nil
	}
	if sc.tokenSet {
		for _, g := range grant.All() {
			if g.File.Token == sc.token && g.File.Name == sc.named && g.File.Store == grant.StoreID(a) {
				return grant.Meant{Path: g.Path, Token: sc.token}, nil
			}
		}
		return grant.Meant{}, over("%q has no grant of yours with token %s: it was unlocked or lost, or it is of another user, "+
			"--handle or store",
			sc.named, phrase.Printable(sc.token))
	}
	m, set, err := grant.Variable(a, sc.named)
	if err == nil && !set {
		err = exit.Usage("which grant of %q? %s is not set here: eval what stile lock prints, or give --token or --handle; %s",
			sc.named, grant.VariableName(a, sc.named), sc.listed(a))
	}
	return m, err
}

// mostListed is how many grants a message names.
const mostListed = 5

// listed names the user's grants of the name, for a message.
func (sc *script) listed(a *driver.Address) string {
	var list []string
	for _, g := range grant.All() {
		if g.File.Name == sc.named && g.File.Store == grant.StoreID(a) {
			list = append(list, fmt.Sprintf("--token %s (renewed %v ago)", g.File.Token, time.Since(g.Renewed).Round(time.Second)))
		}
	}
	switch n := len(list); {
	case n == 0:
		return "you have no grant of it in " + grant.StoreID(a)
	case n > mostListed:
		return fmt.Sprintf("yours are %s and %d more", strings.Join(list[:mostListed], ", "), n-mostListed)
	case n == 1:
		return "yours is " + list[0]
	default:
		return "yours are " + strings.Join(list, ", ")
	}
}

// over returns the error for a grant that is over: there is nothing to act on.
func over(format string, args ...any) error { return exit.With(exit.Lost, fmt.Errorf(format, args...)) }
