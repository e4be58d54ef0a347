//go:build unix

package servertest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// MySQL starts a MariaDB server with new data, whose user "root" may do everything and needs no password. Options may be
// added, "name=value"; without any, nothing is synced to the disk. Where the environment names another server's folder in
// STILE_MYSQL, as [MySQLFolder] says, that one is started.
func MySQL(t TB, options ...string) *Server {
	t.Helper()
	as, err := unprivileged("mysql")
	if err != nil {
		t.Fatalf("%v", err)
	}
	m := findMySQL(t)
	if options == nil {
		options = m.unsynced
	}
	return Start(t, Process{
		Binary: m.server, Package: "mariadb-server", Credential: as,
		Files: func(s *Server) error { return m.files(s, as, options) },
		Args: func(s *Server) []string {
			args := append(m.args(s),
				"--socket="+filepath.Join(s.Dir, "socket"), "--port="+strconv.Itoa(s.Ports[0]), "--bind-address=127.0.0.1",
				"--skip-name-resolve", "--init-file="+filepath.Join(s.Dir,
					"init.sql"), "--innodb_buffer_pool_size=32M", "--max_connections=300")
			for _, option := range slices.Concat(m.options, options) {
				args = append(args, "--"+option)
			}
			if m.identify {
				args = append(args, "--ssl-cert="+filepath.Join(s.Dir, "cert.pem"), "--ssl-key="+filepath.Join(s.Dir, "key.pem"))
			}
			return args
		},
		Ready: func(s *Server) error { return mysqlReady(s.Addr) },
	})
}

// MySQLFolder is the variable of the environment that names the folder of a server, be it MySQL or MariaDB, that is started
// in place of the MariaDB of the system. Its programs are in bin: mysqld, or mariadbd and mariadb-install-db.
const MySQLFolder = "STILE_MYSQL"

// A mysqlServer is how a server is started, which MySQL and MariaDB do in different ways.
type mysqlServer struct {
	server   string   // program
	create   []string // command that makes the data
	base     string   // folder in which the programs look for what they need; empty means that they know
	options  []string // for each server
	unsynced []string // for a server that syncs nothing to the disk
	identify bool     // whether to give it a certificate; a server that makes its own at each start takes up to 20 s
}

func findMySQL(t TB) *mysqlServer {
	t.Helper()
	maria := &mysqlServer{
		server: "mariadbd",
		create: []string{
			"mariadb-install-db", "--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=8M",
		},
		unsynced: []string{"innodb_flush_log_at_trx_commit=0"},
	}
	maria.base = folderOf(t, MySQLFolder)
	if maria.base == "" {
		return maria
	}
	server := filepath.Join(maria.base, "bin", "mysqld")
	if _, err := os.Stat(server); err == nil {
		return &mysqlServer{
			server: server, base: maria.base, create: []string{server, "--initialize-insecure"},
			options:  []string{"mysqlx=OFF", "secure_file_priv=NULL"},
			unsynced: []string{"innodb_flush_log_at_trx_commit=0", "sync_binlog=0"}, // MySQL has a binary log by default
		}
	}
	maria.server, maria.identify = filepath.Join(maria.base, "bin", "mariadbd"), true
	maria.create[0] = filepath.Join(maria.base, "bin", maria.create[0])
	return maria
}

// args returns the arguments that the program which makes the data and the server have in common.
func (m *mysqlServer) args(s *Server) []string {
	args := []string{"--no-defaults", "--datadir=" + filepath.Join(s.Dir, "data"), "--tmpdir=" + s.Dir}
	if m.base != "" {
		args = append(args, "--basedir="+m.base)
	}
	return args
}

// files makes the files of a new server, unless they are there. Each server has its own folder for temporary tables: one
// that starts removes all that it finds there, and another whose they were fails or crashes.
func (m *mysqlServer) files(s *Server, as *syscall.Credential, options []string) error {
	data := filepath.Join(s.Dir, "data")
	if _, err := os.Stat(data); err == nil {
		return nil
	}
	rights := "CREATE USER IF NOT EXISTS root@'127.0.0.1';\nGRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n"
	if err := os.WriteFile(filepath.Join(s.Dir, "init.sql"), []byte(rights), 0o644); err != nil {
		return err
	}
	if m.identify {
		if err := writeIdentity(s.Dir, as); err != nil {
			return err
		}
	}
	args := append(m.args(s), m.create[1:]...)
	for _, option := range options {
		if strings.HasPrefix(option, "lower-case-table-names=") { // which cannot change later
			args = append(args, "--"+option)
		}
	}
	err := asUser(as, m.create[0], args...)
	if err != nil {
		os.RemoveAll(data) // or the next attempt would take it for whole
	}
	return err
}

// writeIdentity writes a certificate that the user can read as whom the server runs.
func writeIdentity(dir string, as *syscall.Credential) error {
	files, err := writeCertificate(dir)
	if err != nil || as == nil {
		return err
	}
	return errors.Join(os.Chown(files.cert, int(as.Uid), int(as.Gid)), os.Chown(files.key, int(as.Uid), int(as.Gid)))
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
