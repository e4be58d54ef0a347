//go:build unix

package servertest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	zooKeeperJar = "/usr/share/java/zookeeper.jar"
	zooKeeperLog = "/usr/share/java/slf4j-simple.jar"
	zooKeeperTLS = "/usr/share/java/netty-codec.jar:/usr/share/java/netty-common.jar:/usr/share/java/netty-resolver.jar"

	// A server counts time in ticks, and ends a session a tick late at most.
	zooKeeperTick = 200 * time.Millisecond
)

// ZooKeeper starts one ZooKeeper server, with the lines added to its configuration. A line that begins with -D is a
// property of its Java machine instead.
func ZooKeeper(t TB, lines ...string) *Server {
	t.Helper()
	needZooKeeper(t)
	return Start(t, zooKeeperServer(1, func(s *Server) []string {
		return append(clientPort(s), properties(lines, false)...)
	}, properties(lines, true)))
}

// ZooKeeperTLS starts one ZooKeeper server that speaks only TLS. It returns the file of the authority that signed its
// certificate, which is for 127.0.0.1 and localhost.
func ZooKeeperTLS(t TB) (s *Server, authority string) {
	t.Helper()
	needZooKeeper(t)
	files := certificate(t)
	both := filepath.Join(t.TempDir(), "both.pem")
	cert, err := os.ReadFile(files.cert)
	key, err2 := os.ReadFile(files.key)
	if err := errors.Join(err, err2, os.WriteFile(both, append(cert, key...), 0o600)); err != nil {
		t.Fatalf("%v", err)
	}
	trust, err := files.config()
	if err != nil {
		t.Fatalf("%v", err)
	}
	p := zooKeeperServer(1, func(s *Server) []string {
		return []string{"secureClientPort=" + strconv.Itoa(s.Ports[0]), "secureClientPortAddress=127.0.0.1"}
	}, []string{
		"-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"-Dzookeeper.ssl.keyStore.location=" + both, "-Dzookeeper.ssl.keyStore.type=PEM",
		"-Dzookeeper.ssl.trustStore.location=" + files.cert, "-Dzookeeper.ssl.trustStore.type=PEM",
		"-Dzookeeper.ssl.clientAuth=none",
	})
	p.Ready = func(s *Server) error {
		text, err := zooKeeperWord(s.Addr, "srvr", trust)
		if err == nil && !strings.Contains(text, "Mode: ") {
			err = errors.New("it does not serve")
		}
		return err
	}
	return Start(t, p), files.authority
}

// ZooKeeperEnsemble starts servers that replicate one another, and returns when all of them serve. The lines are as in
// [ZooKeeper].
func ZooKeeperEnsemble(t TB, size int, lines ...string) []*Server {
	t.Helper()
	needZooKeeper(t)
	const each = 3 // for clients, for following the leader, for electing one
	var members []string
	list := make([]*Server, size)
	ports, err := freePorts(each * size)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for i := range size {
		members = append(members, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i+1, ports[each*i+1], ports[each*i+2]))
	}
	errs := make([]error, size)
	var starting sync.WaitGroup
	for i := range size {
		p := zooKeeperServer(each, func(s *Server) []string {
			config := append(clientPort(s), append([]string{"initLimit=25", "syncLimit=10"}, members...)...)
			return append(config, properties(lines, false)...)
		}, properties(lines, true))
		s := &Server{
			t: t, spec: p, Dir: t.TempDir(),
			Ports: ports[each*i : each*(i+1)], Addr: fmt.Sprintf("127.0.0.1:%d", ports[each*i]),
		}
		t.Cleanup(s.Kill)
		list[i] = s
		if err := os.MkdirAll(filepath.Join(s.Dir, "data"), 0o700); err != nil {
			t.Fatalf("%v", err)
		}
		if err := os.WriteFile(filepath.Join(s.Dir, "data", "myid"), []byte(strconv.Itoa(i+1)+"\n"), 0o600); err != nil {
			t.Fatalf("%v", err)
		}
		starting.Go(func() { errs[i] = s.run() })
	}
	starting.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("zookeeper does not start: %v\n%s", err, list[i].Log())
		}
	}
	return list
}

// ZooKeeperMode returns what a ZooKeeper server is: "standalone", "leader", "follower", "read-only", or "" while it does
// not serve.
func (s *Server) ZooKeeperMode() string {
	for line := range strings.Lines(s.ZooKeeperStatus()) {
		if mode, ok := strings.CutPrefix(strings.TrimSpace(line), "Mode: "); ok {
			return mode
		}
	}
	return ""
}

// ZooKeeperStatus returns what a ZooKeeper server says of itself in lines, or "" while it does not answer.
func (s *Server) ZooKeeperStatus() string {
	text, err := zooKeeperWord(s.Addr, "srvr", nil)
	if err != nil {
		return ""
	}
	return text
}

// Start runs again a server that was stopped or killed, without waiting until it serves.
func (s *Server) Start() {
	s.t.Helper()
	ready := s.spec.Ready
	s.spec.Ready = func(*Server) error { return nil }
	err := s.run()
	s.spec.Ready = ready
	if err != nil {
		s.t.Fatalf("%s does not start again: %v\n%s", s.spec.Binary, err, s.Log())
	}
}

func needZooKeeper(t TB) {
	t.Helper()
	for _, file := range []string{zooKeeperJar, zooKeeperLog} {
		if _, err := os.Stat(file); err != nil {
			t.Fatalf("ZooKeeper is not installed: apt-get install zookeeper")
		}
	}
}

func clientPort(s *Server) []string {
	return []string{"clientPort=" + strconv.Itoa(s.Ports[0]), "clientPortAddress=127.0.0.1"}
}

func properties(lines []string, want bool) []string {
	var list []string
	for _, line := range lines {
		if strings.HasPrefix(line, "-D") == want {
			list = append(list, line)
		}
	}
	return list
}

// zooKeeperServer is made to start quickly and be small. What it writes is not forced to the disk.
func zooKeeperServer(ports int, config func(s *Server) []string, props []string) Process {
	return Process{
		Binary: "java", Package: "zookeeper", Ports: ports,
		Files: func(s *Server) error {
			lines := append([]string{
				fmt.Sprintf("tickTime=%d", zooKeeperTick.Milliseconds()), "maxSessionTimeout=60000",
				"dataDir=" + filepath.Join(s.Dir, "data"),
				"admin.enableServer=false", "4lw.commands.whitelist=*", "preAllocSize=64", "maxClientCnxns=0",
			}, config(s)...)
			return os.WriteFile(filepath.Join(s.Dir, "zoo.cfg"), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
		},
		Args: func(s *Server) []string {
			args := []string{
				"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:-UsePerfData",
				"-Dzookeeper.forceSync=no", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
			}
			args = append(args, props...)
			return append(args, "-cp", zooKeeperJar+":"+zooKeeperLog+":"+zooKeeperTLS,
				"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(s.Dir, "zoo.cfg"))
		},
		Ready: func(s *Server) error {
			if s.ZooKeeperMode() == "" {
				return errors.New("it does not serve")
			}
			return nil
		},
	}
}

// zooKeeperWord sends one of the four-letter words and returns the answer, which is not empty. A nil config means no TLS.
func zooKeeperWord(addr, word string, secure *tls.Config) (string, error) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return "", err
	}
	if secure != nil {
		c = tls.Client(c, secure)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(c)
	if err == nil && len(text) == 0 {
		err = errors.New("no answer")
	}
	return string(text), err
}
