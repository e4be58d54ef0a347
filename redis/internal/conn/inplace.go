package conn

import (
	"context"
	"strings"

	"github.com/redis/rueidis"
)

// InPlace reports whether the user may change part of a string under keys like one that is not there, and when the key expires.
// The commands that ask change nothing. A server that does not answer is no reason to say no.
func (c *Conn) InPlace(ctx context.Context, key string) bool {
	most := probeWithin
	if c.Spread() {
		most = othersWithin // this server may hang, and the others not
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	b := c.client.B()
	for _, r := range c.client.DoMulti(ctx,
		b.Getrange().Key(key).Start(0).End(0).Build(),
		b.Setrange().Key(key).Offset(0).Value("").Build(),
		b.Pexpire().Key(key).Milliseconds(MinLease.Milliseconds()).Build(),
	) {
		if refusal, ok := rueidis.IsRedisErr(r.Error()); ok && strings.HasPrefix(bare(refusal.Error()), "NOPERM") {
			return false
		}
	}
	return true
}
