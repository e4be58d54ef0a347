package consul

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/record"
	"github.com/stilelock/stile/store/memory"
)

// A claim whose record only looks like a session's hold is a stranger's. The lock service notes who wrote the record; without
// principals the store does not know the derived claim.
func TestForgedHold(t *testing.T) {
	for _, by := range []string{"", "bob"} {
		t.Run("by "+by, func(t *testing.T) {
			d := memory.New()
			ann := replica(t, d)
			if by != "" {
				ann = ann.as(user{"ann", every, every, new(atomic.Bool)})
			}
			s := ann.open(short)
			text := fmt.Sprintf(`{"program":"x","consul_key":{"session":%q,"by":%q,"nonce":"x","principal":%q,"flags":7,"value":"dGV4dA=="}}`,
				s, newKey(secret).name, ann.Principal())
			forged := &driver.Claim{
				Name: "a", ID: "own", Client: "x", Weight: driver.All, Capacity: driver.All, TTL: time.Hour, Wait: time.Hour,
				Record: record.With(text, by),
			}
			if p, err := d.Enter(t.Context(), forged); err != nil || !p.Holds {
				t.Fatalf("the forged claim = %+v, %v", p, err)
			}
			ann.says("PUT /v1/kv/a?acquire="+s+"&flags=7", "text", http.StatusOK, "false")
			ann.says("PUT /v1/kv/a?acquire="+s+"&flags=8", "text", http.StatusOK, "false")
			if who := ann.holder("a"); by != "" && (who == s || who == "") {
				t.Errorf("%q holds the key; want a stranger", who)
			}
		})
	}
}
