//go:build unix

package servertest_test

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

const (
	notOfType = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
	syntax    = "-ERR syntax error\r\n"
	null      = "$-1\r\n"
)

// recorded are commands on three keys, k, s and none, and what a Redis 7.0.15 with the module TairString of April 2021
// answered, byte for byte.
var recorded = []struct{ command, want string }{
	{"EXSET k v NX PX 30000", "+OK\r\n"},
	{"EXSET k v NX PX 30000", null},
	{"TYPE k", "+exstrtype\r\n"},
	{"EXSET k w WITHVERSION", ":2\r\n"},
	{"PTTL k", ":-1\r\n"}, // a write that says nothing of it makes the key last
	{"EXSET k w XX", "+OK\r\n"},
	{"EXSET k w VER 99", "-ERR update version is stale\r\n"},
	{"EXSET k w VER 3", "+OK\r\n"},
	{"EXSET k w ABS 77", "+OK\r\n"},
	{"EXGET k", "*2\r\n$1\r\nw\r\n:77\r\n"},
	{"EXSET k w ABS 0", "+OK\r\n"},
	{"EXGET k", "*2\r\n$1\r\nw\r\n:0\r\n"},
	{"EXSET k w NX WITHVERSION", null},
	{"EXSET none w XX", null},
	{"EXSET k w PX 0", syntax},
	{"EXSET k w PX -1", syntax},
	{"EXSET k w PX abc", syntax},
	{"EXSET k w EX 1 PX 1", syntax},
	{"EXSET k w NX XX", syntax},
	{"EXSET k w ABS -1", syntax},
	{"EXSET k w ABS abc", syntax},
	{"EXSET k w VER 1 ABS 2", syntax},
	{"EXSET k w FLAGS 4294967296", syntax},
	{"EXSET k", "-ERR wrong number of arguments for 'exset' command\r\n"},
	{"EXSET", "-ERR wrong number of arguments for 'exset' command\r\n"},
	{"EXSET k w VER 0 ABS 1763717005000000 PX 30000", syntax},
	{"EXSET k w ABS 1763717005000000 PX 30000", "+OK\r\n"},
	{"EXCAS k x 1763717005000000 PX 20000", "*3\r\n+OK\r\n+\r\n:1763717005000001\r\n"},
	{"EXCAS k y 5", "*3\r\n+CAS_FAILED\r\n$1\r\nx\r\n:1763717005000001\r\n"},
	{"EXCAS none y 5", ":-1\r\n"},
	{"EXCAS k y abc", "-ERR version should be integer\r\n"},
	{"EXCAS k y", "-ERR wrong number of arguments for 'excas' command\r\n"},
	{"EXCAD k 5", ":0\r\n"},
	{"EXCAD k abc", syntax},
	{"EXCAD k", "-ERR wrong number of arguments for 'excad' command\r\n"},
	{"EXCAD k 1763717005000001", ":1\r\n"},
	{"EXCAD k 1", ":-1\r\n"},
	{"EXGET k", null},
	{"EXGET", "-ERR wrong number of arguments for 'exget' command\r\n"},
	{"EXSET k v VER 9", "+OK\r\n"},
	{"EXGET k WITHFLAGS", "*3\r\n$1\r\nv\r\n:1\r\n:0\r\n"}, // created with version 1, whatever was said
	{"EXSETVER k 5", ":1\r\n"},
	{"EXSETVER none 5", ":0\r\n"},
	{"EXSETVER k 0", syntax},
	{"EXSET k v FLAGS 7", "+OK\r\n"},
	{"EXGET k WITHFLAGS", "*3\r\n$1\r\nv\r\n:6\r\n:7\r\n"},
	{"GET k", notOfType},
	{"CAS k a b", notOfType},
	{"CAD k a", notOfType},
	{"SET k a NX", null}, // to a string's client it looks taken
	{"SET s a PX 30000", "+OK\r\n"},
	{"EXGET s", notOfType},
	{"EXSET s a", notOfType},
	{"EXCAS s a 1", notOfType},
	{"EXCAD s 1", notOfType},
	{"CAS s a b", ":1\r\n"},
	{"PTTL s", ":-1\r\n"},
	{"CAS s a b", ":0\r\n"},
	{"CAS none a b", ":-1\r\n"},
	{"CAS s b c PX 0", syntax},
	{"CAS s b c PX abc", syntax},
	{"CAS s b c EX 5 PX 5", syntax},
	{"CAS s b c KEEPTTL", ":1\r\n"},
	{"CAD s a", ":0\r\n"},
	{"CAD s c", ":1\r\n"},
	{"CAD s c", ":-1\r\n"},
	{"CAS", "-ERR wrong number of arguments for 'cas' command\r\n"},
	{"CAD", "-ERR wrong number of arguments for 'cad' command\r\n"},
	{"CAS s", "-ERR wrong number of arguments for 'cas' command\r\n"},
}

// A raw is a connection on which answers are seen as they are.
type raw struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dialRaw(t *testing.T) *raw {
	t.Helper()
	var addr string
	if text := os.Getenv("STILE_TEST_TAIR"); text != "" {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal("STILE_TEST_TAIR is not a URL")
		}
		addr = u.Host
	} else {
		addr = servertest.Tair(t).Addr
	}
	c, err := net.DialTimeout("tcp", addr, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(30 * time.Second))
	return &raw{t, c, bufio.NewReader(c)}
}

// do sends a command and returns all that is answered before the answer to a PING.
func (c *raw) do(args ...string) string {
	c.t.Helper()
	const end = "$4\r\n\x00end\r\n"
	for _, args := range [][]string{args, {"PING", "\x00end"}} {
		fmt.Fprintf(c, "*%d\r\n", len(args))
		for _, a := range args {
			fmt.Fprintf(c, "$%d\r\n%s\r\n", len(a), a)
		}
	}
	var answer []byte
	for !strings.HasSuffix(string(answer), end) {
		b, err := c.in.ReadByte()
		if err != nil {
			c.t.Fatalf("%s: %v after %q", args[0], err, answer)
		}
		answer = append(answer, b)
	}
	return strings.TrimSuffix(string(answer), end)
}

// TestTairAnswersAsRecorded runs against the real module if STILE_TEST_TAIR has the URL of a server with it.
func TestTairAnswersAsRecorded(t *testing.T) {
	t.Parallel()
	c := dialRaw(t)
	tag := rand.Text()
	for _, step := range recorded {
		args := strings.Fields(step.command)
		if len(args) > 1 {
			args[1] += tag
		}
		if got := c.do(args...); got != step.want {
			t.Errorf("%s = %q; want %q", step.command, got, step.want)
		}
	}
}

// Commands in scripts answer what they answer outside.
func TestTairInScripts(t *testing.T) {
	t.Parallel()
	c := dialRaw(t)
	key := rand.Text()
	const script = `
		local set = redis.call('EXSET', KEYS[1], 'v', 'NX', 'PX', 60000, 'ABS', '1763717005000000')
		local again = redis.call('EXSET', KEYS[1], 'w', 'NX')
		local found = redis.call('EXGET', KEYS[1])
		local wrong = redis.pcall('GET', KEYS[1])
		local left = redis.call('PTTL', KEYS[1]) > 59000
		local bad = redis.pcall('EXSET', KEYS[1], 'v', 'PX', 0)
		return {set.ok, again, found[1], found[2], redis.call('EXCAD', KEYS[1], 1), redis.call('EXCAD', KEYS[1], found[2]),
			left, bad.err, wrong.err and string.sub(wrong.err, 1, 9)}`
	const want = "*9\r\n$2\r\nOK\r\n$-1\r\n$1\r\nv\r\n:1763717005000000\r\n" +
		":0\r\n:1\r\n:1\r\n$16\r\nERR syntax error\r\n$9\r\nWRONGTYPE\r\n"
	if got := c.do("EVAL", script, "1", key); got != want {
		t.Errorf("eval = %q; want %q", got, want)
	}
	sha := c.do("SCRIPT", "LOAD", script)
	if got := c.do("EVALSHA", strings.TrimSpace(strings.TrimPrefix(sha, "$40\r\n")), "1", key); got != want {
		t.Errorf("evalsha = %q; want %q", got, want)
	}
	const refused = "redis.call('SET', KEYS[1], 'a') return redis.call('EXGET', KEYS[1])"
	if got := c.do("EVAL", refused, "1", key); !strings.HasPrefix(got, "-WRONGTYPE ") {
		t.Errorf("a refusal in a script = %q; want it refused as WRONGTYPE", got)
	}
}

// The third version of Redis' protocol has another null.
func TestTairInNewProtocol(t *testing.T) {
	t.Parallel()
	c := dialRaw(t)
	c.do("HELLO", "3")
	for command, want := range map[string]string{
		"EXGET none":      "_\r\n",
		"EXSET none v XX": "_\r\n",
		"EXCAS none v 1":  ":-1\r\n",
	} {
		if got := c.do(strings.Fields(command)...); got != want {
			t.Errorf("%s = %q; want %q", command, got, want)
		}
	}
}

// A command that comes in pieces, and many that come at once, are answered in order.
func TestTairPipelines(t *testing.T) {
	t.Parallel()
	c := dialRaw(t)
	text := "*3\r\n$3\r\nCAD\r\n$4\r\nnone\r\n$1\r\na\r\n*2\r\n$4\r\nPING\r\n$1\r\n1\r\n*2\r\n$5\r\nEXGET\r\n$4\r\nnone\r\n"
	for i := range len(text) {
		if _, err := io.WriteString(c, text[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := c.do("PING"), ":-1\r\n$1\r\n1\r\n$-1\r\n+PONG\r\n"; got != want {
		t.Errorf("answers = %q; want %q", got, want)
	}
}
