package mysql

import (
	"database/sql"
	"strconv"
	"strings"
	"testing"

	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/internal/guardtest"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	guardtest.SQL(t, &guardtest.Database{DB: raw(t, server, database(t, server)), Dialect: guard.MySQL})
}

// A server that is not strict cuts values that do not fit.
func TestGuardColumns(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"strict", "lenient"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			set := "%27%27"
			if mode == "strict" {
				set = "%27STRICT_ALL_TABLES%27"
			}
			db, err := sql.Open("mysql", "root@tcp("+server.Addr+")/"+database(t, server)+"?sql_mode="+set)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			guardtest.Columns(t, &guardtest.Database{DB: db, Dialect: guard.MySQL})
		})
	}
}

// The guard of the Python client keeps the same marks.
func TestGuardInPython(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	host, port, _ := strings.Cut(server.Addr, ":")
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	guardtest.Python(t, &guardtest.Database{DB: raw(t, server, name), Dialect: guard.MySQL}, "pymysql", map[string]any{
		"host": host, "port": number, "user": "root", "database": name,
	})
}

func BenchmarkGuard(b *testing.B) {
	guardtest.Cost(b, &guardtest.Database{DB: raw(b, server, database(b, server)), Dialect: guard.MySQL})
}
