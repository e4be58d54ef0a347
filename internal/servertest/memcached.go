//go:build unix

package servertest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Memcached starts a memcached server, with the arguments added to its command line.
func Memcached(t TB, args ...string) *Server {
	t.Helper()
	return Start(t, Process{
		Binary: "memcached", Package: "memcached",
		Args: func(s *Server) []string {
			own := []string{"-l", "127.0.0.1", "-p", strconv.Itoa(s.Ports[0]), "-U", "0", "-m", "16", "-t", "2"}
			if os.Geteuid() == 0 {
				own = append(own, "-u", "nobody")
			}
			return append(own, args...)
		},
		Ready: func(s *Server) error {
			_, err := askMemcached(s.Addr, "version\r\n")
			return err
		},
	})
}

// Memcached sends text to a memcached server on a connection of its own, and returns its answer up to the line that the
// text's last command, mn, is answered with. The test fails if there is no answer.
func (s *Server) Memcached(format string, args ...any) string {
	s.t.Helper()
	answer, err := askMemcached(s.Addr, fmt.Sprintf(format, args...)+"mn\r\n")
	if err != nil {
		s.t.Fatalf("memcached: %v", err)
	}
	return answer
}

func askMemcached(addr, text string) (string, error) {
	c, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write([]byte(text)); err != nil {
		return "", err
	}
	var answer strings.Builder
	for in := bufio.NewReader(c); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return "", err
		}
		if line == "MN\r\n" || text == "version\r\n" {
			return answer.String(), nil
		}
		answer.WriteString(line)
	}
}
