package zookeeper

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// A claim may enter anew, in the next session, while a renewal is about to ask the last one. What the last session answers
// then says nothing about the claim's node.
func TestRenewalIsOfOneSession(t *testing.T) {
	t.Parallel()
	d := newDriver()
	t.Cleanup(d.zk.life.End)
	c := &driver.Claim{ID: "moved"}
	d.line.localClaims[c.ID] = &localClaim{
		who: who{claim: *c, folder: folder{session: &wire.Session{}}}, node: znode{name: "n"}, lease: lease{state: claimHolding, ends: never},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // the other session never answers
	defer cancel()
	if got := d.line.renew(ctx, &wire.Session{}, []*driver.Claim{c})[0]; !errors.Is(got.Err, driver.ErrSession) {
		t.Errorf("renewal on another session = %+v; want ErrSession", got)
	}
}
