//go:build unix

package conn

import (
	"net"
	"runtime"
	"syscall"
	"time"
)

// A spinner looks for an answer that is about to come, again and again for spinFor, instead of having its goroutine woken.
// On an idle machine the waking takes longer than the server: a core that has nothing to do halts, and has to be woken too.
// Other goroutines run in between. While answers come later, as those of a server far away, it looks less and less often: in
// one of 64 reads at last.
//
// With 2, 4, 8 and 16 goroutines on as many names a lock and unlock takes 68, 36, 24 and 19 µs with this, and took 79, 50, 32 and
// 23 without; of the client's processor it takes 55, 30, 20 and 17 µs, and took 57, 38, 25 and 18. While other programs keep the
// cores busy it takes 68, 45, 36 and 33 µs, and took 66, 53, 43 and 40. A goroutine that is alone won less and used more, so
// nobody spins for it (cd store/redis && go test -run '^$' -bench Pair .).
//
// One goroutine at a time reads from a connection.
type spinner struct {
	raw syscall.RawConn
	try func(fd uintptr) bool // is look

	into []byte // where what comes belongs
	came int    // how much did

	rest, left int // how many reads went without a look after the last vain one, and how many still do
}

// newSpinner returns one for a connection, or nil if that cannot be looked at, or the server may need the processor.
func newSpinner(c net.Conn) *spinner {
	t, ok := c.(*net.TCPConn)
	if !ok || runtime.GOMAXPROCS(0) == 1 {
		return nil
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return nil
	}
	s := &spinner{raw: raw}
	s.try = s.look
	return s
}

// mostRest is how many reads go without a look at the most.
const mostRest = 63

// read returns how much came while it looked: 0 is no error and no end, but whoever asks waits then as usual.
func (s *spinner) read(b []byte) int {
	switch {
	case s == nil:
		return 0
	case s.left > 0:
		s.left--
		return 0
	}
	s.into, s.came = b, 0
	_ = s.raw.Read(s.try) // what is wrong, the usual read says too
	s.into = nil
	if s.came > 0 {
		s.rest = 0
	} else {
		s.rest = min(2*s.rest+1, mostRest)
		s.left = s.rest
	}
	return s.came
}

// look never has the runtime wait for the connection.
func (s *spinner) look(fd uintptr) bool {
	for until := time.Now().Add(spinFor); ; runtime.Gosched() {
		n, err := syscall.Read(int(fd), s.into) //nolint:gosec // a descriptor
		if err == nil && n > 0 {
			s.came = n
		}
		again := err == syscall.EAGAIN || err == syscall.EINTR //nolint:errorlint // numbers
		if !again || !time.Now().Before(until) {
			return true
		}
	}
}
