package stile

import "github.com/stilelock/stile/internal/hooks"

func init() {
	hooks.NewAsleep = newClient
	hooks.Names = func(c *Client) int { return c.keeper.Names() }
	hooks.Beside = func(l *Lease) int { return l.share.Beside() }
}
