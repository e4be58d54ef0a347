package postgres_test

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/drivertest"
	"github.com/stilelock/stile/internal/servertest"
	_ "github.com/stilelock/stile/postgres"
)

// server is shared by the tests that leave it as it is. Each has a schema of its own.
var server *servertest.Server

func TestMain(m *testing.M) {
	os.Exit(servertest.Main(m, func(t servertest.TB) { server = servertest.Postgres(t) }))
}

// fresh returns the URL of a schema that does not exist yet.
func fresh(s *servertest.Server, params ...string) string {
	schema := "test_" + strings.ToLower(rand.Text())
	return "postgres://postgres@" + s.Addr + "/postgres?" + strings.Join(append(params, "schema="+schema), "&")
}

// opener returns what opens one more client of the store at a URL.
func opener(url string) func(t testing.TB) driver.Driver {
	return func(t testing.TB) driver.Driver {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		d, err := driver.Open(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Store{Open: opener(fresh(server))})
}

func TestModel(t *testing.T) {
	t.Parallel()
	drivertest.Model(t, drivertest.Store{Open: opener(fresh(server))}, 1, 2000)
}
