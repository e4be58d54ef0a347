//go:build unix

package servertest

import (
	"bufio"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// A TairServer is a Redis server that answers the commands of the module TairString as that module does: Server is the
// one behind, and what its commands set there are strings and hashes.
type TairServer struct {
	*Server
	Addr string // where the commands are answered

	listen net.Listener
	mu     sync.Mutex        // guards what follows
	texts  map[string]string // scripts that use the commands, by digest
	open   map[net.Conn]bool // nil once it is closed
}

//go:embed tair.lua
var tairLua string

// arity has the commands that are played, and how many arguments each has at least.
var arity = map[string]int{"EXSET": 2, "EXGET": 1, "EXCAS": 3, "EXCAD": 2, "EXSETVER": 2, "CAS": 3, "CAD": 2}

// exact are the commands without further arguments.
var exact = map[string]bool{"EXCAD": true, "EXSETVER": true, "CAD": true}

// Tair starts a Redis server and, in front of it, what makes it answer EXSET, EXGET, EXCAS, EXCAD, EXSETVER, CAS and CAD,
// also in scripts, and TYPE.
func Tair(t TB, args ...string) *TairServer {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("%v", err)
	}
	s := &TairServer{
		Server: Redis(t, args...), Addr: l.Addr().String(), listen: l,
		texts: map[string]string{}, open: map[net.Conn]bool{},
	}
	var work sync.WaitGroup
	work.Go(func() { s.accept(&work) })
	t.Cleanup(func() {
		l.Close()
		s.mu.Lock()
		for c := range s.open {
			c.Close()
		}
		s.open = nil
		s.mu.Unlock()
		work.Wait()
	})
	return s
}

func (s *TairServer) accept(work *sync.WaitGroup) {
	for {
		client, err := s.listen.Accept()
		if err != nil {
			return
		}
		server, err := net.DialTimeout("tcp", s.Server.Addr, dialWithin)
		if err != nil {
			client.Close()
			continue
		}
		s.mu.Lock()
		if s.open == nil {
			client.Close()
			server.Close()
		} else {
			s.open[client], s.open[server] = true, true
			end := func() {
				client.Close()
				server.Close()
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.open, client)
				delete(s.open, server)
			}
			work.Go(func() { defer end(); s.requests(client, server) })
			work.Go(func() { defer end(); _, _ = io.Copy(client, server) }) // until one of them is closed
		}
		s.mu.Unlock()
	}
}

// requests passes commands on, the played ones as scripts. Each command stays one command, so the answers need no look.
func (s *TairServer) requests(client io.Reader, server io.Writer) {
	in, out := bufio.NewReader(client), bufio.NewWriter(server)
	for {
		args, err := readCommand(in)
		if err != nil {
			return
		}
		args = s.play(args)
		fmt.Fprintf(out, "*%d\r\n", len(args))
		for _, a := range args {
			fmt.Fprintf(out, "$%d\r\n%s\r\n", len(a), a)
		}
		if in.Buffered() == 0 && out.Flush() != nil {
			return
		}
	}
}

func readCommand(in *bufio.Reader) ([]string, error) {
	number := func(kind byte) (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		if line[0] != kind {
			return 0, fmt.Errorf("a command has %q where %q belongs", line, kind)
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number('*')
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := number('$')
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		args[i] = string(text[:size])
	}
	return args, nil
}

// uses finds the commands in a script.
var uses = regexp.MustCompile(`['"](EXSET|EXGET|EXCAS|EXCAD|EXSETVER|CAS|CAD)['"]`)

// play returns the command that has the effect of one on a server with the module.
func (s *TairServer) play(args []string) []string {
	verb, rest := strings.ToUpper(args[0]), args[1:]
	least, played := arity[verb]
	switch {
	case played && (len(rest) < least || exact[verb] && len(rest) > least):
		return []string{"EVAL", "return {err = ARGV[1]}", "0",
			fmt.Sprintf("ERR wrong number of arguments for '%s' command", strings.ToLower(verb))}
	case played || verb == "TYPE" && len(rest) == 1:
		return append([]string{"EVAL", tairLua + "return redis.pcall(ARGV[1], KEYS[1], unpack(ARGV, 2))", "1",
			rest[0], verb}, rest[1:]...)
	case verb == "SCRIPT" && len(rest) == 2 && strings.EqualFold(rest[0], "LOAD"):
		s.learn(rest[1])
	case verb == "EVAL" && len(rest) > 1:
		s.learn(rest[0])
		if uses.MatchString(rest[0]) {
			return append([]string{"EVAL", tairLua + rest[0]}, rest[1:]...)
		}
	case verb == "EVALSHA" && len(rest) > 1:
		s.mu.Lock()
		text, ok := s.texts[strings.ToLower(rest[0])]
		s.mu.Unlock()
		if ok {
			return append([]string{"EVAL", tairLua + text}, rest[1:]...)
		}
	}
	return args
}

func (s *TairServer) learn(text string) {
	if uses.MatchString(text) {
		sum := sha1.Sum([]byte(text))
		s.mu.Lock()
		defer s.mu.Unlock()
		s.texts[hex.EncodeToString(sum[:])] = text
	}
}
