//go:build unix

package servertest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Postgres starts a PostgreSQL server with a new cluster, whose superuser "postgres" needs no password on any database,
// while other users need theirs. Lines of configuration may be added, "name = value"; without any, nothing is synced to
// the disk. It is the newest server of the system, or the one whose folder STILE_POSTGRES of the environment names.
func Postgres(t TB, config ...string) *Server {
	t.Helper()
	if config == nil {
		config = []string{"fsync = off"}
	}
	return startPostgres(t, config, func(data string, as *syscall.Credential) error {
		err := asUser(as, postgresBinary(t, "initdb"), "-D", data, "--no-sync", "--no-locale", "-E", "UTF8", "-A", "trust",
			"-U", "postgres")
		if err != nil {
			return err
		}
		access := "host all postgres 127.0.0.1/32 trust\n" +
			"host replication postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
		return os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(access), 0o644)
	})
}

// PostgresStandby starts a standby of a server. It follows late, unless the server waits for it by its name "standby".
func PostgresStandby(t TB, primary *Server) *Server {
	t.Helper()
	host, port, _ := strings.Cut(primary.Addr, ":")
	return startPostgres(t, []string{"fsync = off", "hot_standby = on"}, func(data string, as *syscall.Credential) error {
		from := "host=" + host + " port=" + port + " user=postgres application_name=standby"
		return asUser(as, postgresBinary(t, "pg_basebackup"), "-D", data, "-d", from, "-R", "-X", "stream", "-c", "fast",
			"--no-sync")
	})
}

// PostgresPair starts a server and a standby for which it waits with each commit.
func PostgresPair(t TB) (primary, standby *Server) {
	t.Helper()
	primary = Postgres(t, "fsync = on", "synchronous_standby_names = standby")
	return primary, PostgresStandby(t, primary)
}

func startPostgres(t TB, config []string, create func(data string, as *syscall.Credential) error) *Server {
	t.Helper()
	as, err := postgresUser()
	if err != nil {
		t.Fatalf("%v", err)
	}
	return Start(t, Process{
		Binary: postgresBinary(t, "postgres"), Package: "postgresql", Credential: as,
		Files: func(s *Server) error {
			data := filepath.Join(s.Dir, "data")
			if _, err := os.Stat(data); err == nil {
				Until(s.t, "the shared memory of the server that ran before is free",
					func() bool { return !sharesMemory(data) })
				return nil
			}
			return create(data, as)
		},
		Args: func(s *Server) []string {
			args := []string{"-D", filepath.Join(s.Dir, "data"), "-p", strconv.Itoa(s.Ports[0])}
			lines := []string{"listen_addresses = 127.0.0.1", "unix_socket_directories = ", "max_connections = 200"}
			for _, line := range append(lines, config...) {
				name, value, _ := strings.Cut(line, " = ")
				args = append(args, "-c", name+"="+value)
			}
			return args
		},
		Ready: func(s *Server) error { return postgresReady(s.Addr) },
	})
}

// postgresUser returns a user as whom the server runs.
func postgresUser() (*syscall.Credential, error) { return unprivileged("postgres") }

// PostgresFolder is the variable of the environment that names the folder of a server, whose programs are in bin, that is
// started in place of the newest one of the system.
const PostgresFolder = "STILE_POSTGRES"

// postgresBinary returns where a program is: of the server that the environment names, or of the newest one that is
// installed. It returns the name alone if there is none.
func postgresBinary(t TB, name string) string {
	t.Helper()
	if dir := folderOf(t, PostgresFolder); dir != "" {
		return filepath.Join(dir, "bin", name)
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		return name
	}
	return slices.MaxFunc(found, func(a, b string) int { return len(a) - len(b) + strings.Compare(a, b) })
}

func asUser(as *syscall.Credential, command string, args ...string) error {
	cmd := exec.Command(command, args...)
	cmd.Dir, cmd.SysProcAttr = "/", attributes()
	cmd.SysProcAttr.Credential = as
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", command, err, out)
	}
	return nil
}

// postgresReady takes every answer but "starting up" for a yes: a server that asks for a password is up.
func postgresReady(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	hello := []byte("\x00\x00\x00\x00\x00\x03\x00\x00user\x00postgres\x00database\x00postgres\x00\x00")
	binary.BigEndian.PutUint32(hello, uint32(len(hello)))
	if _, err := c.Write(hello); err != nil {
		return err
	}
	answer := make([]byte, 512)
	n, err := io.ReadAtLeast(c, answer, 5)
	if err != nil {
		return err
	}
	if answer[0] == 'E' && bytes.Contains(answer[:n], []byte("C57P03\x00")) {
		return errors.New("starting up")
	}
	return nil
}

// KillPostgres ends a PostgreSQL server and all its processes with SIGKILL, and returns when they are gone.
func KillPostgres(s *Server) {
	s.Pause() // so that it starts no more of them
	list := children(s.Pid())
	s.Kill()
	for _, pid := range list {
		_ = syscall.Kill(pid, syscall.SIGKILL) // by itself it would end what it was about to do
	}
	Until(s.t, "the processes of the server are gone", func() bool {
		return !slices.ContainsFunc(list, func(pid int) bool {
			state, _ := process(pid)
			return state != "" && state != "Z"
		})
	})
}

// PausePostgres is Pause with all processes of a PostgreSQL server. They go on when resume is called.
func PausePostgres(s *Server) (resume func()) {
	s.Pause() // so that it starts no more of them
	list := children(s.Pid())
	for _, pid := range list {
		_ = syscall.Kill(pid, syscall.SIGSTOP) // one that has just ended answers nothing either
	}
	return func() {
		for _, pid := range list {
			_ = syscall.Kill(pid, syscall.SIGCONT) // one that has ended has nothing to go on with
		}
		s.Resume()
	}
}

// sharesMemory reports whether processes of a server that did not end by itself have its shared memory yet. A server that
// starts beside them ends at once. The server writes the number of that memory into its pid file.
func sharesMemory(data string) bool {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return false
	}
	const memory, number, attached = 6, 1, 6
	lines := strings.Split(string(text), "\n")
	if len(lines) <= memory || len(strings.Fields(lines[memory])) <= number {
		return false
	}
	id := strings.Fields(lines[memory])[number]
	segments, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		return false // a system without /proc
	}
	for line := range strings.Lines(string(segments)) {
		if fields := strings.Fields(line); len(fields) > attached && fields[number] == id {
			return fields[attached] != "0"
		}
	}
	return false
}

// children returns the processes that a process has started.
func children(parent int) []int {
	var list []int
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		pid, _ := strconv.Atoi(filepath.Base(name))
		if _, of := process(pid); of == parent {
			list = append(list, pid)
		}
	}
	return list
}

// process returns the state of a process, "" if there is none, and its parent.
func process(pid int) (state string, parent int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	if _, err := fmt.Sscan(rest, &state, &parent); err != nil {
		return "", 0 // it ended while it was read
	}
	return state, parent
}
