//go:build unix

package servertest

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// MySQL starts a MariaDB server with new data, whose user "root" may do everything and needs no password. Options may be
// added, "name=value"; without any, nothing is synced to the disk.
func MySQL(t TB, options ...string) *Server {
	t.Helper()
	if options == nil {
		options = []string{"innodb_flush_log_at_trx_commit=0"}
	}
	as, err := unprivileged("mysql")
	if err != nil {
		t.Fatalf("%v", err)
	}
	return Start(t, Process{
		Binary: "mariadbd", Package: "mariadb-server", Credential: as,
		Files: func(s *Server) error { return makeMySQL(s, as) },
		Args: func(s *Server) []string {
			args := []string{
				"--no-defaults", "--datadir=" + filepath.Join(s.Dir, "data"), "--tmpdir=" + s.Dir,
				"--socket=" + filepath.Join(s.Dir, "socket"),
				"--port=" + strconv.Itoa(s.Ports[0]), "--bind-address=127.0.0.1", "--skip-name-resolve",
				"--init-file=" + filepath.Join(s.Dir, "init.sql"), "--innodb_buffer_pool_size=32M", "--max_connections=300",
			}
			for _, option := range options {
				args = append(args, "--"+option)
			}
			return args
		},
		Ready: func(s *Server) error { return mysqlReady(s.Addr) },
	})
}

// makeMySQL makes the files of a new server, unless they are there. Each server has its own folder for temporary tables: one
// that starts removes all that it finds there, and another whose they were fails or crashes.
func makeMySQL(s *Server, as *syscall.Credential) error {
	data := filepath.Join(s.Dir, "data")
	if _, err := os.Stat(data); err == nil {
		return nil
	}
	rights := "CREATE USER IF NOT EXISTS root@'127.0.0.1';\nGRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n"
	if err := os.WriteFile(filepath.Join(s.Dir, "init.sql"), []byte(rights), 0o644); err != nil {
		return err
	}
	err := asUser(as, "mariadb-install-db", "--no-defaults", "--datadir="+data, "--tmpdir="+s.Dir,
		"--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=8M")
	if err != nil {
		os.RemoveAll(data) // or the next attempt would take it for whole
	}
	return err
}

// mysqlReady waits for the greeting with which the server begins to serve a connection.
func mysqlReady(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	greeting := make([]byte, 512)
	n, err := io.ReadAtLeast(c, greeting, 5)
	if err != nil {
		return err
	}
	const protocol = 10
	if kind := greeting[4]; kind != protocol {
		return fmt.Errorf("the greeting has type %d: %q", kind, greeting[5:n])
	}
	return nil
}
