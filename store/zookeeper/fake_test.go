package zookeeper_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"path"
	"strings"
	"sync"
	"testing"
	"time"
)

// A fake is a server that keeps the children of one name, and can do what a real one does too rarely: count past 2^31,
// refuse a request, and be behind.
type fake struct {
	addr string

	mu     sync.Mutex // guards what follows
	seq    int32      // the number of the next node
	zxid   int64
	nodes  map[string]int64 // the transaction that created each claim's node, by its path
	refuse map[int32]int32  // codes of refusals, by the number of the request
	behind bool             // reads show no node, until a quorum has agreed on something
	stale  int              // how many reads showed no node
	agreed int              // how many requests needed the agreement of a quorum
	alone  bool             // requests that need the agreement of a quorum are refused
	config string           // its list of the ensemble's servers; empty for a lone server
	lasts  time.Duration    // how long a session is
	beats  int              // how many pings came on the newest connection
	open   []net.Conn

	// before, unless nil, is called with each request before the answer. It returns the code of a refusal, or lose.
	before func(op int32) (code int32)
}

// The protocol's numbers of the requests that the fake gets.
const (
	createNode   = 15
	createParent = 19
	deleteNode   = 2
	readNode     = 4
	setList      = 7
	listChildren = 12
	agree        = 14
	ping         = 11
	listSession  = 103
	endSession   = -11

	noNode = -101
	noAuth = -102

	throttled = -127

	lose = 1 // the connection is cut, and the request is not applied
)

func newFake(t testing.TB, seq int32) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{addr: l.Addr().String(), seq: seq, zxid: 100, nodes: map[string]int64{}, refuse: map[int32]int32{},
		lasts: 10 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.open = append(f.open, c)
			f.mu.Unlock()
			serving.Go(func() { f.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		f.cut()
		serving.Wait()
	})
	return f
}

func frame(c net.Conn) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(c, body)
	return body, err
}

func put[T int32 | int64](b []byte, v T) []byte {
	if _, long := any(v).(int64); long {
		return binary.BigEndian.AppendUint64(b, uint64(v))
	}
	return binary.BigEndian.AppendUint32(b, uint32(v))
}

func putText(b []byte, s string) []byte { return append(put(b, int32(len(s))), s...) }

func (f *fake) serve(c net.Conn) {
	defer c.Close()
	if _, err := frame(c); err != nil {
		return
	}
	f.mu.Lock()
	lasts := int32(f.lasts.Milliseconds())
	f.beats = 0
	f.mu.Unlock()
	hello := put(put(put([]byte(nil), int32(0)), lasts), int64(7))
	hello = append(putText(hello, strings.Repeat("p", 16)), 0)
	send := func(b []byte) error {
		_, err := c.Write(append(put([]byte(nil), int32(len(b))), b...))
		return err
	}
	if send(hello) != nil {
		return
	}
	for {
		request, err := frame(c)
		if err != nil {
			return
		}
		xid, op := int32(binary.BigEndian.Uint32(request)), int32(binary.BigEndian.Uint32(request[4:]))
		target := ""
		if len(request) > 12 {
			n := binary.BigEndian.Uint32(request[8:])
			target = string(request[12:min(len(request), 12+int(n))])
		}
		code, body := f.asked(op), []byte(nil)
		if code == lose {
			return
		}
		if code == 0 {
			code, body = f.answer(op, target)
		}
		if send(append(put(put(put([]byte(nil), xid), int64(100)), code), body...)) != nil || op == endSession {
			return
		}
	}
}

// asked calls before with a request.
func (f *fake) asked(op int32) int32 {
	f.mu.Lock()
	before := f.before
	f.mu.Unlock()
	if before == nil {
		return 0
	}
	return before(op)
}

// tells sets the function that is called with the next requests.
func (f *fake) tells(before func(op int32) (code int32)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = before
}

func stat(czxid int64) []byte {
	b := put(put(put(put([]byte(nil), czxid), czxid), int64(0)), int64(0))
	b = put(put(put(b, int32(0)), int32(0)), int32(0))
	return put(put(put(put(b, int64(7)), int32(0)), int32(0)), int64(0))
}

func (f *fake) answer(op int32, target string) (code int32, body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if op == ping {
		f.beats++
	}
	if code := f.refuse[op]; code != 0 {
		return code, nil
	}
	if op == readNode && target == "/zookeeper/config" {
		return 0, append(putText(nil, f.config), stat(1)...)
	}
	switch op {
	case createNode, deleteNode, agree:
		if f.alone {
			return throttled, nil
		}
		f.behind = false
		if op == agree {
			f.agreed++
		}
	case readNode, listChildren:
		if f.behind {
			f.stale++
			return noneOf(op)
		}
	}
	switch op {
	case createNode:
		f.zxid++
		name := target + fmt.Sprintf("%010d", f.seq)
		f.seq++
		f.nodes[name] = f.zxid
		return 0, append(putText(nil, name), stat(f.zxid)...)
	case createParent:
		return 0, append(putText(nil, target), stat(1)...)
	case deleteNode:
		if f.nodes[target] == 0 {
			return noNode, nil
		}
		delete(f.nodes, target)
	case readNode:
		if f.nodes[target] == 0 {
			return noNode, nil
		}
		return 0, append(putText(nil, "{}"), stat(f.nodes[target])...)
	case listChildren:
		body = put(body, int32(len(f.nodes)))
		for name := range f.nodes {
			body = putText(body, path.Base(name))
		}
		return 0, append(body, stat(1)...)
	case listSession:
		body = put(body, int32(len(f.nodes)))
		for name := range f.nodes {
			body = putText(body, name)
		}
		return 0, body
	default: // exists, for the chroot
		return 0, stat(1)
	}
	return 0, nil
}

// three is a server's list of an ensemble of three.
const three = "server.1=a:1:2:participant\nserver.2=b:1:2:participant\nserver.3=c:1:2:participant\n"

// noneOf returns the answer to a read if there is no node.
func noneOf(op int32) (code int32, body []byte) {
	if op == readNode {
		return noNode, nil
	}
	return 0, append(put(body, int32(0)), stat(1)...)
}

// fallsBehind makes the next reads show no node.
func (f *fake) fallsBehind() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.behind, f.stale = true, 0
}

// cut ends all connections.
func (f *fake) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.open {
		c.Close()
	}
	f.open = nil
}

// misled ends fallsBehind, and returns how many reads have shown no node.
func (f *fake) misled() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.behind = false
	return f.stale
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.nodes)
}

func (f *fake) refuses(op, code int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse[op] = code
}
