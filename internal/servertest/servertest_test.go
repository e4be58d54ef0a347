//go:build unix

package servertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func TestRedis(t *testing.T) {
	s := Redis(t)
	if got := s.Redis([]string{"PING"}); got != "PONG" {
		t.Errorf("PING answers %v", got)
	}
	pid := s.Pid()
	s.Restart()
	if s.Pid() == pid {
		t.Error("the process is the same after a restart")
	}
	if got := s.Redis([]string{"PING"}); got != "PONG" {
		t.Errorf("after a restart, PING answers %v", got)
	}
	s.Pause()
	if !stopped(s.Pid()) {
		t.Error("the process goes on after Pause")
	}
	s.Resume()
	Until(t, "it goes on", func() bool { return !stopped(s.Pid()) })
	s.Pause()
	s.Stop()
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("the process outlives Stop")
	}
}

func TestRedisTLS(t *testing.T) {
	s, authority := RedisTLS(t)
	if _, err := os.Stat(authority); err != nil {
		t.Error(err)
	}
	if err := redisReady(s.Addr, nil); err == nil {
		t.Error("the server answers without TLS")
	}
}

func TestRedisCluster(t *testing.T) {
	list := RedisCluster(t)
	for _, s := range list {
		if got := s.RedisInfo("cluster_enabled"); got != "1" {
			t.Errorf("cluster_enabled is %q", got)
		}
	}
}

func TestRedisSentinel(t *testing.T) {
	set := RedisSentinel(t)
	if got := set.Replica.RedisInfo("role"); got != "slave" {
		t.Errorf("the replica's role is %q", got)
	}
}

// A server that dies under its tests is named, with the end of its log.
func TestEndsByItself(t *testing.T) {
	fake := &recorder{TB: t}
	s := Redis(fake)
	s.Restart()
	if log := fake.said(); log != "" {
		t.Errorf("a restart says %q", log)
	}
	if err := syscall.Kill(s.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.exited
	for _, want := range []string{"redis-server ended by itself: signal: killed", "Ready to accept connections"} {
		if log := fake.said(); !strings.Contains(log, want) {
			t.Errorf("it says %q, want %q in it", log, want)
		}
	}
}

// A missing server is a failure that says how to get it.
func TestMissing(t *testing.T) {
	fake := &recorder{TB: t}
	func() {
		defer func() { recover() }()
		Start(fake, Process{Binary: "no-such-server", Package: "some-package"})
	}()
	if want := "apt-get install some-package"; !strings.Contains(fake.fatal, want) {
		t.Errorf("the failure is %q, want %q in it", fake.fatal, want)
	}
}

// The server whose folder the environment names is started, or the test fails: no other stands in for it.
func TestFolderOfServer(t *testing.T) {
	empty := t.TempDir()
	if err := os.Mkdir(filepath.Join(empty, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		variable, folder string
		start            func(t TB)
		want             string
	}{
		{PostgresFolder, "/no/such/folder", func(t TB) { Postgres(t) }, "STILE_POSTGRES must be the absolute path"},
		{PostgresFolder, "bin", func(t TB) { Postgres(t) }, "STILE_POSTGRES must be the absolute path"},
		{PostgresFolder, empty, func(t TB) { Postgres(t) }, "bin/postgres"},
		{MySQLFolder, "/no/such/folder", func(t TB) { MySQL(t) }, "STILE_MYSQL must be the absolute path"},
		{MySQLFolder, empty, func(t TB) { MySQL(t) }, "bin/mariadbd"},
		{RedisFolder, "bin", func(t TB) { Redis(t) }, "STILE_REDIS must be the absolute path"},
		{RedisFolder, empty, func(t TB) { Redis(t) }, "bin/redis-server"},
	}
	for _, tt := range tests {
		t.Setenv(tt.variable, tt.folder)
		fake := &recorder{TB: t}
		func() {
			defer func() { recover() }()
			tt.start(fake)
		}()
		if !strings.Contains(fake.fatal, tt.want) || strings.Contains(fake.fatal, "apt-get") {
			t.Errorf("%s=%s: the failure is %q, want %q in it", tt.variable, tt.folder, fake.fatal, tt.want)
		}
	}
}

type recorder struct {
	TB
	fatal string

	mu  sync.Mutex // guards what follows
	log string
}

func (r *recorder) Logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log += fmt.Sprintf(format, args...)
}

func (r *recorder) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.fatal = fmt.Sprintf(format, args...)
	panic("failed")
}
