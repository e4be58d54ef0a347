package driver_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
)

func TestRequire(t *testing.T) {
	all := driver.Traits{
		Store: "all", Ordered: true, Shared: true, Permits: true, Delay: true, Fencing: driver.DurableFencing, Restart: true, Failover: true, Wake: "push",
		Amends: true, Asks: true,
	}
	if err := all.Require(driver.Requirable()...); err != nil {
		t.Errorf("a store that has all: %v", err)
	}
	none := driver.Traits{Store: "none", Wake: "poll", Warnings: []driver.Warning{{Text: "It forgets.", Mend: "memory yes", Unfit: true}}}
	if got := none.Lacks(driver.Requirable()...); !reflect.DeepEqual(got, driver.Requirable()) {
		t.Errorf("a store that has none lacks %q; want all", got)
	}
	if err := none.Require(); err != nil {
		t.Errorf("a store of which nothing is required: %v", err)
	}
	for required, want := range map[driver.Trait]string{
		driver.TraitFailover: "the store cannot do this: none lacks failover, which is required; It forgets. Better: memory yes",
		"fail-over":          `there is no trait "fail-over"; there are: fencing, durable-fencing, `,
		"":                   `there is no trait ""; there are: `,
	} {
		if err := none.Require(required); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("requiring %q: %v; want %s", required, err, want)
		}
	}
	clock := driver.Traits{Fencing: driver.ClockFencing}
	if got := clock.Lacks(driver.TraitFencing, driver.TraitDurable); !reflect.DeepEqual(got, []driver.Trait{driver.TraitDurable}) {
		t.Errorf("tokens that rise by a clock lack %q; want durable-fencing only", got)
	}
}
