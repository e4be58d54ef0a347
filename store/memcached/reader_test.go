package memcached

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// scripted is a connection to a server whose answers the test sends.
type scripted struct {
	t    *testing.T
	c    *conn
	sock net.Conn // the server's end
	in   *bufio.Reader
}

func newScripted(t *testing.T, lookEvery time.Duration) *scripted {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	sock, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{t: t, c: newConn(client, lookEvery), sock: sock, in: bufio.NewReader(sock)}
	t.Cleanup(func() {
		sock.Close()
		s.c.close(errors.New("the test is over"))
	})
	return s
}

// ask begins a call, and returns when the server has its request.
func (s *scripted) ask(ctx context.Context, request string, want int) chan string {
	s.t.Helper()
	ended := make(chan string, 1)
	go func() {
		replies, err := s.c.do(ctx, []byte(request+"\r\n"), want)
		if err != nil {
			ended <- "error: " + err.Error()
			return
		}
		var words []string
		for _, r := range replies {
			words = append(words, r.status+" "+string(r.data))
		}
		ended <- strings.Join(words, ", ")
	}()
	if got, err := s.in.ReadString('\n'); err != nil || got != request+"\r\n" {
		s.t.Fatalf("the server got %q, %v; want %q", got, err, request)
	}
	return ended
}

func (s *scripted) answer(text string) {
	s.t.Helper()
	if _, err := s.sock.Write([]byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

// reads waits until a goroutine of this kind reads.
func (s *scripted) reads(is who) {
	s.t.Helper()
	servertest.Until(s.t, "the right one reads", func() bool {
		s.c.mu.Lock()
		defer s.c.mu.Unlock()
		return s.c.who == is
	})
}

// Each call gets all of its own answers, whichever goroutine reads.
func TestWhoReads(t *testing.T) {
	t.Parallel()
	is := func(t *testing.T, got chan string, want string) {
		t.Helper()
		if is := <-got; is != want {
			t.Errorf("a call ended with %q; want %q", is, want)
		}
	}
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s *scripted)
	}{
		{"a call that is alone, by its caller", func(t *testing.T, s *scripted) {
			got := s.ask(t.Context(), "a", 2)
			s.reads(caller)
			s.answer("STORED\r\nVA 2 x\r\nhi\r\n")
			is(t, got, "STORED , VA hi")
			s.reads(nobody)
		}},
		{"answers that come in parts", func(t *testing.T, s *scripted) {
			for i, whole := 0, "STORED\r\nVA 2 x\r\nhi\r\n"; i < len(whole); i++ {
				got := s.ask(t.Context(), "a", 2)
				s.reads(caller)
				s.answer(whole[:i])
				if i > 0 {
					s.reads(reader)
				}
				s.answer(whole[i:])
				is(t, got, "STORED , VA hi")
				s.reads(nobody)
			}
		}},
		{"many that wait at once, and one after them", func(t *testing.T, s *scripted) {
			calls := make([]chan string, few+1)
			for i := range calls {
				calls[i] = s.ask(t.Context(), "a", 1)
			}
			s.answer(strings.Repeat("STORED\r\n", len(calls)))
			for _, got := range calls {
				is(t, got, "STORED ")
			}
			for range batchAfter - 1 {
				s.reads(reader)
				got := s.ask(t.Context(), "b", 1)
				s.answer("STORED\r\n")
				is(t, got, "STORED ")
			}
			got := s.ask(t.Context(), "b", 1)
			s.answer("STORED\r\n")
			is(t, got, "STORED ")
			s.reads(nobody)
		}},
		{"one more while a caller reads", func(t *testing.T, s *scripted) {
			first := s.ask(t.Context(), "a", 1)
			s.reads(caller)
			second := s.ask(t.Context(), "b", 1)
			s.answer("STORED\r\n")
			is(t, first, "STORED ")
			s.reads(reader)
			s.answer("EXISTS\r\n")
			is(t, second, "EXISTS ")
		}},
		{"the answer to one that was given up is not the next one's", func(t *testing.T, s *scripted) {
			ctx, cancel := context.WithCancel(t.Context())
			first := s.ask(ctx, "a", 1)
			s.reads(caller)
			cancel()
			if s.c.takeReading() {
				t.Error("the reader takes a connection to be idle whose answer is to come")
			}
			is(t, first, "error: context canceled")
			s.reads(reader)
			second := s.ask(t.Context(), "b", 1)
			s.answer("STORED\r\nEXISTS\r\n")
			is(t, second, "EXISTS ")
		}},
		{"one that was given up when part of its answer had come", func(t *testing.T, s *scripted) {
			ctx, cancel := context.WithCancel(t.Context())
			first := s.ask(ctx, "a", 1)
			s.reads(caller)
			s.answer("VA 2 x\r\nh")
			s.reads(reader)
			cancel()
			is(t, first, "error: context canceled")
			second := s.ask(t.Context(), "b", 1)
			s.answer("i\r\nEXISTS\r\n")
			is(t, second, "EXISTS ")
		}},
		{"what nobody asked for ends the connection", func(t *testing.T, s *scripted) {
			got := s.ask(t.Context(), "a", 1)
			s.reads(caller)
			s.answer("STORED\r\nSTORED\r\n")
			is(t, got, "STORED ")
			<-s.c.broken
		}},
		{"a request that was not understood ends the connection", func(t *testing.T, s *scripted) {
			got := s.ask(t.Context(), "a", 2)
			s.reads(caller)
			s.answer("CLIENT_ERROR bad\r\n")
			is(t, got, "error: CLIENT_ERROR bad")
			<-s.c.broken
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, newScripted(t, time.Hour)) // only the test makes the reader look
		})
	}
}

// The reader notices when an idle connection breaks, and when the caller that reads gives up.
func TestReaderLooks(t *testing.T) {
	t.Parallel()
	s := newScripted(t, time.Millisecond)
	s.reads(reader)
	got := s.ask(t.Context(), "a", 1)
	s.answer("STORED\r\n")
	if is := <-got; is != "STORED " {
		t.Errorf("a call ended with %q", is)
	}
	ctx, cancel := context.WithCancel(t.Context())
	got = s.ask(ctx, "b", 1)
	cancel()
	if is := <-got; is != "error: context canceled" {
		t.Errorf("a call whose context ended ended with %q", is)
	}
	s.answer("STORED\r\n")
	s.sock.Close()
	<-s.c.broken
}

// A context whose methods block prevents no later call from ending, nor its own for ever.
func TestContextIsAskedForLong(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		run  func(ctx context.Context, s *scripted) chan string
		want string
	}{
		"a later call": {func(ctx context.Context, s *scripted) chan string {
			s.answer("STORED\r\n")
			s.reads(nobody)
			ctx, cancel := context.WithCancel(ctx)
			second := s.ask(ctx, "b", 1)
			s.reads(caller)
			cancel()
			return second
		}, "error: context canceled"},
		"its own": {func(_ context.Context, s *scripted) chan string {
			s.c.mu.Lock()
			s.c.calls[0].begun = time.Now().Add(-patience)
			s.c.mu.Unlock()
			return nil
		}, "error: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScripted(t, time.Hour)
			var asked atomic.Bool
			asks, release := make(chan struct{}), make(chan struct{})
			t.Cleanup(func() { close(release) })
			got := s.ask(asking{t.Context(), func() {
				if asked.CompareAndSwap(true, false) {
					close(asks)
					<-release
				}
			}}, "a", 1)
			s.reads(caller)
			asked.Store(true)
			s.c.takeReading()
			<-asks
			if second := test.run(t.Context(), s); second != nil {
				<-got
				got = second
			}
			s.c.takeReading()
			select {
			case is := <-got:
				if !strings.HasPrefix(is, test.want) {
					t.Errorf("the call ended with %q; want %q", is, test.want)
				}
			case <-timely(t).Done():
				t.Error("the call does not end")
			}
		})
	}
}
