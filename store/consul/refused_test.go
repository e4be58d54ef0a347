package consul

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// A claim that enters and must be refused leaves again. If its session ended meanwhile, the error is the same.
func TestRefusedClaimIsOutAlready(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	by := operator{t, "http://" + s.Addr}
	holds(t, open(t, "consul://"+s.Addr), claimOn("name"))
	refused := claimOn("name")
	refused.Weight, refused.Capacity = 1, 3
	ended := false
	d := meddled(t, s, func() {
		for _, p := range by.under("stile/name/") {
			if strings.Contains(p.Key, refused.ID) {
				by.must(http.MethodPut, "session/destroy/"+p.Session, "")
				by.must(http.MethodDelete, "kv/"+escape(p.Key), "")
				ended = true
			}
		}
	})
	_, err := d.Enter(timely(t), refused)
	if capacity, is := errors.AsType[*driver.CapacityError](err); !is || !driver.NotApplied(err) || capacity.Have != driver.All {
		t.Errorf("enter = %v; want a capacity error", err)
	}
	if !ended {
		t.Error("the claim was not there when it was to go; this shows nothing")
	}
}
