package main

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"github.com/stilelock/stile"
)

// stale reports whether the handle's file is there, left by a claim that no longer stands. One that stands is an error.
func (sc *script) stale(ctx context.Context, c *stile.Client) (bool, error) {
	h, err := readHandle(sc.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, usage("--handle %s: %w", sc.path, err)
	}
	q, err := c.Show(ctx, h.Name)
	if err != nil {
		return false, err
	}
	token, _ := strconv.ParseInt(h.Token, 10, 64)
	if slices.ContainsFunc(q.Claims, func(claim stile.Claim) bool { return claim.Ticket != 0 && claim.Ticket == token-token%claimTokens }) {
		return false, usage("%s is the handle of a claim on %q that still stands: release it with stile unlock, or give --handle another file",
			sc.path, h.Name)
	}
	return true, nil
}

// claimTokens is how many tokens belong to one claim. Its ticket is the first.
const claimTokens = 1 << 10

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

// attach opens the store and takes up the claim that the handle names.
func (sc *script) attach(ctx context.Context) (*stile.Client, *stile.Lease, error) {
	address, _, err := sc.address()
	if err != nil {
		return nil, nil, err
	}
	if sc.path == "" {
		if sc.path, err = defaultHandle(address, sc.named); err != nil {
			return nil, nil, err
		}
	}
	file, err := readHandle(sc.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, usage("there is no handle %s: it was unlocked, or locked with another --handle, --url or user", sc.path)
	case err != nil:
		return nil, nil, usage("--handle %s: %w", sc.path, err)
	case sc.named != "" && sc.named != file.Name:
		return nil, nil, usage("%s is the handle of %q, not of %q", sc.path, file.Name, sc.named)
	case file.Store != storeID(address):
		return nil, nil, usage("%s is for the store %s, but --url or %s says %s", sc.path, file.Store, urlVariable, storeID(address))
	}
	h, err := file.handle()
	if err != nil {
		return nil, nil, usage("--handle %s: %w", sc.path, err)
	}
	c, err := sc.open(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	lease, err := c.Attach(ctx, h)
	if err != nil {
		return c, nil, err
	}
	return c, lease, nil
}
