//go:build unix

package servertest

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestPostgres(t *testing.T) {
	t.Parallel()
	s := Postgres(t)
	pooler := PgBouncer(t, s, "transaction")
	if err := postgresReady(pooler.Addr); err != nil {
		t.Errorf("the pooler: %v", err)
	}
	list := children(s.Pid())
	if len(list) == 0 {
		t.Error("the server has started no processes")
	}
	KillPostgres(s)
	for _, pid := range list {
		if state, _ := process(pid); state != "" && state != "Z" {
			t.Errorf("process %d is alive: %v", pid, syscall.Kill(pid, 0))
		}
	}
	s.Restart()
	if err := postgresReady(s.Addr); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

// A server whose process was killed starts again when the last of the processes that it had started is gone.
func TestPostgresRestartsAfterKill(t *testing.T) {
	t.Parallel()
	s := Postgres(t)
	data := filepath.Join(s.Dir, "data")
	list := children(s.Pid())
	if len(list) == 0 || !sharesMemory(data) {
		t.Fatalf("the server has the processes %v; its memory is in use: %v", list, sharesMemory(data))
	}
	stays := list[0]
	if err := syscall.Kill(stays, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if !sharesMemory(data) {
		t.Error("a process that stands still has no shared memory: the test proves nothing")
	}
	if err := syscall.Kill(stays, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	if err := postgresReady(s.Addr); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

func TestPostgresStandby(t *testing.T) {
	t.Parallel()
	primary, standby := PostgresPair(t)
	Until(t, "the standby follows", func() bool { return strings.Contains(standby.Log(), "started streaming WAL") })
	if primary.Addr == standby.Addr {
		t.Error("both are one server")
	}
}
