package redis_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// tair returns the URL of a server with the commands of TairString: the real one that the environment names, or an
// imitation.
func tair(t testing.TB) string {
	t.Helper()
	if url := os.Getenv("STILE_TEST_TAIR"); url != "" {
		_, rest, _ := strings.Cut(url, "://")
		return "tair://" + rest
	}
	return "tair://" + servertest.Tair(t).Addr
}

func TestContractOfTair(t *testing.T) {
	t.Parallel()
	drive.Lacks(t, opener(tair(t)))
	for _, layout := range []string{"queue", "setnx", "exset"} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			drivertest.Run(t, drivertest.Store{Open: opener(tair(t) + "?layout=" + layout)})
		})
	}
}

// If the server has no CAS and CAD, scripts do the same.
func TestContractOfTairOnRedis(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Store{Open: opener("tair://" + servertest.Redis(t).Addr + "?layout=setnx")})
}

func TestModelOfTair(t *testing.T) {
	t.Parallel()
	drivertest.Model(t, drivertest.Store{Open: opener(tair(t))}, 3, 500)
}
