package memcached

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

func TestRefusedURLs(t *testing.T) {
	t.Parallel()
	for url, words := range map[string][]string{
		"memcached://a,b":                         {"one host", "two of them would hold one lock"},
		"memcached://a/0":                         {"no databases"},
		"memcached://a?layout=redis":              {"redis", "queue", "plain"},
		"memcached://a?prefix=a%20b":              {"prefix", "spaces"},
		"memcached://a?prefix=%C3%BC":             {"prefix", "ASCII"},
		"memcached://a?prefix=a%0D%0Aflush_all":   {"prefix", "control characters"},
		"memcached://a?prefix=" + long(101):       {"prefix", "101 bytes"},
		"memcached://a?ttl=3":                     {`"ttl"`, "known: dial_timeout, layout, prefix"},
		"memcached://a?dial_timeout=3":            {"dial_timeout", "unit"},
		"memcached://a%20b:secret@a":              {"no spaces"},
		"memcached://a:secret%0D%0Aflush_all@a":   {"line breaks"},
		"memcached://127.0.0.1:1?dial_timeout=1s": {"cannot reach memcached at 127.0.0.1:1", "refused"},
	} {
		_, err := driver.Open(timely(t), url)
		says(t, err, words...)
		if !driver.NotApplied(err) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want it marked as definite, without the password", url, err)
		}
	}
}

func long(n int) string { return strings.Repeat("x", n) }

func TestPassword(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte("ann:s3cret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	s := servertest.Start(t, withPassword(file))
	d, err := driver.Open(timely(t), "memcached://ann:s3cret@"+s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	holds(t, d, claim("name", "a"))
	if list, err := d.(driver.Lister).List(timely(t), &driver.Query{}); err != nil || len(list) != 1 {
		t.Errorf("list = %v, %v; want one name", list, err)
	}
	for user, words := range map[string][]string{
		"ann:wr0ng@": {`"ann"`, "does not accept", "password"},
		"":           {"asks for a password"},
	} {
		_, err := driver.Open(timely(t), "memcached://"+user+s.Addr)
		says(t, err, words...)
		if strings.Contains(err.Error(), "wr0ng") {
			t.Errorf("%v shows the password", err)
		}
	}
}

func withPassword(file string) servertest.Process {
	return servertest.Process{
		Binary: "memcached", Package: "memcached",
		Args: func(s *servertest.Server) []string {
			args := []string{"-l", "127.0.0.1", "-p", fmt.Sprint(s.Ports[0]), "-U", "0", "-Y", file}
			if os.Geteuid() == 0 {
				args = append(args, "-u", "root") // root can read the file in a folder of the test
			}
			return args
		},
		Ready: func(s *servertest.Server) error {
			c, err := net.Dial("tcp", s.Addr)
			if err == nil {
				c.Close()
			}
			return err
		},
	}
}

func TestServersThatCannotKeepLocks(t *testing.T) {
	t.Parallel()
	_, err := driver.Open(timely(t), "memcached://"+servertest.Memcached(t, "-C").Addr)
	says(t, err, "option -C")
	marks(t, err, true, false)
	for _, test := range []struct{ version, time, evictions, says string }{
		{"1.4.39", "1", "on", "memcached 1.4.39 has no deletion by version: version 1.6.10 is the oldest"},
		{"1.6.9", "1", "on", "1.6.9"},
		{"1.6.18", "noon", "on", "what time it is"},
		{"", "", "", "does not answer as memcached does"},
	} {
		_, err := driver.Open(timely(t), "memcached://"+impostor(t, test.version, test.time, test.evictions))
		says(t, err, test.says)
		marks(t, err, true, false)
	}
	for _, version := range []string{"1.6.10", "1.6.45", "1.7", "2.0.0-rc1", "1.6.18_beta"} {
		d, err := driver.Open(timely(t), "memcached://"+impostor(t, version, "100", "on"))
		if err != nil {
			t.Errorf("version %s: %v", version, err)
			continue
		}
		d.Close()
	}
}

// impostor answers questions about the server, and returns its address.
func impostor(t *testing.T, version, time, evictions string) string {
	t.Helper()
	answers := map[string]string{
		"version\r\n":        "VERSION " + version + "\r\n",
		"stats\r\n":          "STAT pid 1\r\nSTAT uptime 2\r\nSTAT time " + time + "\r\nEND\r\n",
		"stats settings\r\n": "STAT evictions " + evictions + "\r\nSTAT cas_enabled yes\r\nEND\r\n",
	}
	return servertest.Impostor(t, func(c net.Conn) {
		defer c.Close()
		for in := bufio.NewReader(c); ; {
			line, err := in.ReadString('\n')
			answer := answers[line]
			if version == "" {
				answer = "HTTP/1.1 400 Bad Request\r\n"
			}
			if _, e := c.Write([]byte(answer)); err != nil || e != nil {
				return
			}
		}
	})
}

func TestNotes(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{"": true, "-M": false} {
		for _, parameters := range layouts {
			traits := open(t, servertest.Memcached(t, strings.Fields(args)...).Addr, parameters).Traits()
			notes := strings.Join(traits.Remarks(), "\n")
			if got := strings.Contains(notes, "Better: -M"); got != want {
				t.Errorf("%q%s: the notes are %q; want -M asked for: %v", args, parameters, notes, want)
			}
			promises := traits.Fencing != driver.NoFencing || traits.Restart || traits.Failover
			if promises || !strings.Contains(notes, "not for correctness") {
				t.Errorf("%q%s: the traits are %+v; want nothing promised that a cache cannot keep", args, parameters, traits)
			}
		}
	}
}
