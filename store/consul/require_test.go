package consul

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// A client that requires claims to survive a failover loses its leases when too few servers are left for a failover.
func TestRequiredAfterServerLeaves(t *testing.T) {
	t.Parallel()
	list := servertest.ConsulCluster(t, 3, nil)
	drive.Unfit(t, &drive.Worsening{
		URL: "consul://" + list[0].Addr, Require: driver.TraitFailover, Says: "three servers", TTL: 30 * time.Second,
		Worsen: func() {
			var leader string
			if err := json.Unmarshal(operator{t, "http://" + list[0].Addr}.must(http.MethodGet, "status/leader", ""), &leader); err != nil {
				t.Fatal(err)
			}
			leaves := list[1]
			if strings.HasSuffix(leader, fmt.Sprint(":", leaves.Ports[1])) {
				leaves = list[2]
			}
			operator{t, "http://" + leaves.Addr}.must(http.MethodPut, "agent/leave", "")
		},
	})
}
