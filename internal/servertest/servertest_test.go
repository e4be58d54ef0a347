//go:build unix

package servertest

import (
	"fmt"
	"os"
	"strings"
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

type recorder struct {
	TB
	fatal string
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.fatal = fmt.Sprintf(format, args...)
	panic("failed")
}
