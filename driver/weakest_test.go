package driver_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

func TestWeakest(t *testing.T) {
	strong := driver.Traits{
		Store: "strong", Ordered: true, Shared: true, Permits: true, Delay: true, Amends: true, Asks: true, HearsBreak: true, Fencing: driver.DurableFencing, Restart: true, Failover: true,
		Clock: "process", Wake: "push", MinTTL: time.Millisecond, MaxTTL: time.Hour, Granularity: time.Millisecond, Notes: []string{"a", "b"},
		Warnings: []driver.Warning{{Text: "it rains"}},
	}
	weak := driver.Traits{
		Store: "weak", InSession: true, OwnClient: true, FullWait: true, ShortRecord: true, Fencing: driver.NoFencing,
		Clock: "session", Wake: "poll", MinTTL: time.Second, MaxTTL: time.Minute, Granularity: 2 * time.Second, Session: time.Minute, Notes: []string{"b", "c"},
		Warnings: []driver.Warning{{Text: "it rains"}, {Text: "it snows", Unfit: true}},
	}
	want := weak
	want.Store, want.Notes = "strong", []string{"a", "b", "c"}
	if got := driver.Weakest(strong, weak); !reflect.DeepEqual(got, want) {
		t.Errorf("weakest = %+v; want %+v", got, want)
	}
	want.Store, want.Notes = "weak", []string{"b", "c", "a"}
	if got := driver.Weakest(weak, strong); !reflect.DeepEqual(got, want) {
		t.Errorf("weakest, the other way round = %+v; want %+v", got, want)
	}
	if got := driver.Weakest(strong, strong); !reflect.DeepEqual(got, strong) {
		t.Errorf("weakest of two alike = %+v; want %+v", got, strong)
	}
	if got := driver.Weakest(); !reflect.DeepEqual(got, driver.Traits{}) {
		t.Errorf("weakest of none = %+v; want the zero Traits", got)
	}
	if len(strong.Notes) != 2 {
		t.Errorf("the notes of the first are %q afterwards; want them as they were", strong.Notes)
	}
}

// TestWeakestKnowsAllTraits fails if a new field of Traits is not handled in Weakest.
func TestWeakestKnowsAllTraits(t *testing.T) {
	if got := reflect.TypeFor[driver.Traits]().NumField(); got != 24 {
		t.Errorf("Traits has %d fields; want 24, or Weakest to be looked at again", got)
	}
}
