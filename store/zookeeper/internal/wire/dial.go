package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"time"
)

// answerWithin bounds the first wait for a new connection's answer: a server that is starting may never answer a handshake,
// and the client would lose half of a session on it. Each further try doubles the bound, for slow servers. Several servers
// share it.
const answerWithin = 2 * time.Second

var errSilent = errors.New("no answer in time")

// withinLocked returns how long a connection may take after so many connections without an answer in time.
func (s *Session) withinLocked(silent int) time.Duration {
	most := max(s.me.timeout/time.Duration(2*len(s.conf.Hosts)), 500*time.Millisecond)
	first := max(answerWithin/time.Duration(len(s.conf.Hosts)), 500*time.Millisecond)
	return min(most, first<<min(silent, 20))
}

// mayLeave reports whether the client may leave a server after silenceLimit. It may do so once in a session's time: if the
// next server is silent too, the servers most likely have no leader, and all clients would move from one to the other.
func (s *Session) mayLeave(now time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now < s.stays {
		return false
	}
	s.stays = now + s.me.timeout
	return true
}

// A tour goes from one server to the next, in random order. It skips servers that were silent for a while, unless all were.
type tour struct {
	hosts []string
	at    int
	until map[string]time.Duration
}

func newTour(hosts []string) *tour {
	t := &tour{hosts: slices.Clone(hosts), until: map[string]time.Duration{}}
	rand.Shuffle(len(hosts), func(i, j int) { t.hosts[i], t.hosts[j] = t.hosts[j], t.hosts[i] })
	return t
}

func (t *tour) next(now time.Duration) (host string) {
	for range t.hosts {
		host = t.hosts[t.at%len(t.hosts)]
		if t.at++; t.until[host] <= now {
			return host
		}
	}
	host = t.hosts[t.at%len(t.hosts)]
	t.at++
	return host
}

// shun skips a server until a moment.
func (t *tour) shun(host string, until time.Duration) { t.until[host] = until }

// connect makes a connection, and resumes the session on it or begins the session; silent is the number of connections
// before it that had no answer in time.
func (s *Session) connect(addr string, silent int) (*conn, error) {
	s.mu.Lock()
	want, zxid, within := s.me, s.zxid, s.withinLocked(silent)
	s.mu.Unlock()
	start := Now()
	ctx, cancel := context.WithTimeout(s.ctx, within)
	defer cancel()
	tcp, err := dial(ctx, addr, s.conf.TLS)
	if err != nil {
		return nil, dialError(addr, start, err)
	}
	stop := context.AfterFunc(ctx, func() { tcp.Close() })
	c := &conn{
		Conn: tcp, s: s, in: bufio.NewReaderSize(tcp, 16<<10), ended: make(chan struct{}), kick: make(chan struct{}, 1),
	}
	sent := Now()
	got, err := c.shake(zxid, &want)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		tcp.Close()
		if ctx.Err() != nil && !errors.Is(err, ErrExpired) {
			err = ctx.Err()
		}
		return nil, dialError(addr, start, err)
	}
	c.patience = got.timeout / 3
	if len(s.conf.Hosts) > 1 {
		c.late = time.AfterFunc(time.Hour, c.listen)
		c.late.Stop()
	}
	if s.conf.Digest != "" {
		c.putLocked(xidAuth, opAuth, putText(putText(putInt(nil, 0), "digest"), s.conf.Digest))
		c.wake()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := want.id == 0
	s.me = *got
	s.trust.lone, s.trust.lag = false, got.timeout/4 // until the server says that it is the only one
	s.trust.heard = nil                              // signs that another server received may have reached nobody
	s.trust.note(sent, Now(), false, true)
	if fresh { // a quorum agreed to begin the session
		s.trust.since = sent
	}
	return c, nil
}

// dialError returns why there is no connection to a server that was dialed at start.
func dialError(addr string, start time.Duration, err error) error {
	if errors.Is(err, ErrExpired) || errors.Is(err, ErrRefused) {
		return err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		err = op.Err // the rest repeats the address
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = errSilent
	}
	return &DialError{addr, Now() - start, err}
}

func dial(ctx context.Context, addr string, secure *tls.Config) (net.Conn, error) {
	if secure != nil {
		return (&tls.Dialer{Config: secure}).DialContext(ctx, "tcp", addr)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
}
