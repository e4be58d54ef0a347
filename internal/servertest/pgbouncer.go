//go:build unix

package servertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// PgBouncer starts a pooler in front of a PostgreSQL server, for its user "postgres". The mode is "session" or
// "transaction".
func PgBouncer(t TB, server *Server, mode string) *Server {
	t.Helper()
	as, err := postgresUser()
	if err != nil {
		t.Fatalf("%v", err)
	}
	host, port, _ := strings.Cut(server.Addr, ":")
	return Start(t, Process{
		Binary: "pgbouncer", Package: "pgbouncer", Credential: as,
		Files: func(s *Server) error {
			lines := []string{
				"[databases]", "* = host=" + host + " port=" + port,
				"[pgbouncer]", "listen_addr = 127.0.0.1", fmt.Sprintf("listen_port = %d", s.Ports[0]), "unix_socket_dir =",
				"auth_type = trust", "server_login_retry = 1", "auth_file = " + filepath.Join(s.Dir, "users"),
				"pool_mode = " + mode,
			}
			return errors.Join(
				os.WriteFile(filepath.Join(s.Dir, "users"), []byte("\"postgres\" \"\"\n"), 0o644),
				os.WriteFile(filepath.Join(s.Dir, "pgbouncer.ini"), []byte(strings.Join(lines, "\n")+"\n"), 0o644),
			)
		},
		Args:  func(s *Server) []string { return []string{filepath.Join(s.Dir, "pgbouncer.ini")} },
		Ready: func(s *Server) error { return postgresReady(s.Addr) },
	})
}
