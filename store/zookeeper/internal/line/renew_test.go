package line

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/ensemble"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// A claim may enter again, in the next session, while a renewal is about to ask the last session. The last session's answer
// then shows nothing about the claim's node.
func TestRenewalIsOfOneSession(t *testing.T) {
	t.Parallel()
	zk := ensemble.New()
	k := New(zk)
	t.Cleanup(zk.Life.End)
	c := &driver.Claim{ID: "moved"}
	k.localClaims[c.ID] = &LocalClaim{
		who:  who{claim: *c, Folder: Folder{Session: &wire.Session{}}},
		node: node{name: "n"}, lease: lease{state: claimHolding, ends: Never},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // the other session never answers
	defer cancel()
	if got := k.renew(ctx, &wire.Session{}, []*driver.Claim{c})[0]; !errors.Is(got.Err, driver.ErrSession) {
		t.Errorf("renewal on another session = %+v; want ErrSession", got)
	}
}
