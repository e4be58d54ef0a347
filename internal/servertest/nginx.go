//go:build unix

package servertest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Nginx starts nginx with the lines of examples/nginx.conf in front of two replicas of the lock service, each a host and a
// port. It speaks TLS with a certificate.
func Nginx(t TB, cert, key, replica, other string) *Server {
	t.Helper()
	recipe, err := os.ReadFile(filepath.Join(root(t), "examples", "nginx.conf"))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return Start(t, Process{
		Binary: "/usr/sbin/nginx", Package: "nginx-light",
		Files: func(s *Server) error {
			conf := fmt.Sprintf("daemon off;\nmaster_process off;\nerror_log stderr;\npid %s/nginx.pid;\nevents {}\nhttp {\naccess_log off;\n%s}\n", s.Dir,
				strings.NewReplacer("127.0.0.1:7845", replica, "127.0.0.1:7900", other,
					"listen 8443", "listen "+s.Addr, "cert.pem", cert, "key.pem", key).Replace(string(recipe)))
			return os.WriteFile(filepath.Join(s.Dir, "nginx.conf"), []byte(conf), 0o600)
		},
		Args: func(s *Server) []string {
			return []string{"-e", "stderr", "-p", s.Dir, "-c", filepath.Join(s.Dir, "nginx.conf")}
		},
		Ready: func(s *Server) error {
			c, err := net.DialTimeout("tcp4", s.Addr, time.Second)
			if err == nil {
				c.Close()
			}
			return err
		},
	})
}
