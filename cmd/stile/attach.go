package main

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/stilelock/stile"
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
	address, _, err := sc.address()
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
		return nil, nil, usage("--handle %s: %w", m.path, err)
	}
	c, err := sc.open(ctx, nil)
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
		return nil, usage("--handle %s: %w", m.path, err)
	case sc.named != "" && sc.named != file.Name:
		return nil, usage("%s is the handle of %q, not of %q", m.path, file.Name, sc.named)
	case file.Store != storeID(a):
		return nil, usage("%s is for the store %s, but --url or %s says %s", m.path, file.Store, urlVariable, storeID(a))
	}
	if had, set, err := variable(a, file.Name); m.token == "" && set && err == nil && had.path == m.path {
		m.token = had.token // this shell had a grant in that file
	}
	if m.token != "" && m.token != file.Token {
		return nil, over("%s is the handle of another grant by now, with token %s: that with token %s is over", m.path, file.Token, m.token)
	}
	return file, nil
}
