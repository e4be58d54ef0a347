//go:build unix

package servertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// PgBouncer starts a pooler in front of a PostgreSQL server, for its user "postgres". The mode is "session" or
// "transaction".
func PgBouncer(t TB, server *Server, mode string) *Server {
	t.Helper()
	as, err := postgresUser()
	if err != nil {
		t.Fatalf("%v", err)
	}
	return Start(t, Process{
		Binary: "pgbouncer", Package: "pgbouncer", Credential: as,
		Files: func(s *Server) error {
			return errors.Join(os.WriteFile(filepath.Join(s.Dir, "users"), []byte("\"postgres\" \"\"\n"), 0o644),
				configure(s, server, mode))
		},
		Args:  func(s *Server) []string { return []string{filepath.Join(s.Dir, "pgbouncer.ini")} },
		Ready: func(s *Server) error { return postgresReady(s.Addr) },
	})
}

// PgBouncerMode switches a pooler to another mode.
func PgBouncerMode(s, server *Server, mode string) {
	s.t.Helper()
	if err := configure(s, server, mode); err != nil {
		s.t.Fatalf("%v", err)
	}
	s.signal(syscall.SIGHUP)
	Until(s.t, "the pooler has read its file", func() bool { return strings.Contains(s.Log(), "re-reading config") })
}

func configure(s, server *Server, mode string) error {
	host, port, _ := strings.Cut(server.Addr, ":")
	lines := []string{
		"[databases]", "* = host=" + host + " port=" + port,
		"[pgbouncer]", "listen_addr = 127.0.0.1", fmt.Sprintf("listen_port = %d", s.Ports[0]), "unix_socket_dir =",
		"auth_type = trust", "server_login_retry = 1", "auth_file = " + filepath.Join(s.Dir, "users"),
		"pool_mode = " + mode,
	}
	return os.WriteFile(filepath.Join(s.Dir, "pgbouncer.ini"), []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}
