package memcached_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets many tests run at once: most of the time they wait for leases of whole seconds to end.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "24"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
