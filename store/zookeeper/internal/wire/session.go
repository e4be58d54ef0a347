// Package wire speaks ZooKeeper's protocol: sessions that outlive their connections, calls that end with their context,
// and watches that can be dropped.
//
// A watch also fires when its connection is lost, and the next connection does not set it again: a waiter must look again
// anyway. [Session.Trust] is the time for which the ensemble certainly keeps the session.
package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

const (
	retryMin = 20 * time.Millisecond
	retryMax = time.Second

	// beats is how many signs of life are sent per session timeout.
	beats = 6

	// farewell is how long closing waits for the server to end the session.
	farewell = time.Second
)

// A Config says where and how to keep a session. It never changes.
type Config struct {
	Hosts   []string      // host:port, tried in a random order
	Timeout time.Duration // of the session; the server may choose another
	TLS     *tls.Config   // nil means none
	Digest  string        // user:password; "" means no authentication
	Path    string        // a readable node, for signs of life
	Seen    int64         // the latest transaction of an earlier session: a server that is behind it refuses this session

	Busy func() bool    // while it returns true, the signs of life prolong Trust; nil means never
	Hurt func(*Session) // called when a connection was lost, or the session is over without Close; may be nil
}

// A Session is a session with an ensemble, over one connection after another.
type Session struct {
	conf   *Config
	ctx    context.Context // ends when the session is over
	cancel context.CancelFunc
	ran    chan struct{} // closed when run has ended

	mu      sync.Mutex // guards what follows
	me      greeting   // id is 0 before the first connection
	zxid    int64      // the latest transaction that was seen
	trust   trust
	conn    *conn         // nil if there is none
	stays   time.Duration // until then no server may be left after silenceLimit
	closing bool
	over    error         // why the session is over
	turned  chan struct{} // closed when conn changes, when the session is over, and when all hosts failed
	failure error         // of the last host that failed
	rounds  int           // how often all hosts failed
}

// New returns a session that connects by itself. Close ends it.
func New(conf *Config) *Session {
	s := &Session{conf: conf, zxid: conf.Seen, turned: make(chan struct{}), ran: make(chan struct{})}
	s.me.timeout = conf.Timeout
	s.ctx, s.cancel = context.WithCancel(context.Background())
	go s.run()
	return s
}

// ID returns the session's number, or 0 if it has none yet.
func (s *Session) ID() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.me.id
}

// Seen returns the latest transaction that a server has reported.
func (s *Session) Seen() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.zxid
}

// Timeout returns the negotiated time for which the ensemble keeps the session without a sign of life.
func (s *Session) Timeout() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.me.timeout
}

// Remembered counts what the session keeps in memory: signs of life, and its connection's watches and unanswered requests.
func (s *Session) Remembered() int {
	s.mu.Lock()
	n, c := len(s.trust.heard), s.conn
	s.mu.Unlock()
	if c == nil {
		return n
	}
	c.mu.Lock()
	n += len(c.waiting) + len(c.pings)
	c.mu.Unlock()
	return n + c.watches.count()
}

// Err returns why the session is over, or nil.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// Trust returns for how much longer the ensemble certainly keeps the session: at most the timeout, less the drift of two
// clocks in that time. It is negative if nothing is certain.
func (s *Session) Trust() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return -1
	}
	const drift = 200 // half a percent
	return s.trust.since + s.me.timeout - 2*s.me.timeout/drift - Now()
}

// Do sends requests together, waits for a connection if there is none, and returns when all are answered. After an error not
// all were answered: [*Unsent] means that none was sent, [ErrExpired] or [ErrRefused] that the session is over, and any
// other error that the outcome is unknown. Each call has its own refusal by the server.
func (s *Session) Do(ctx context.Context, calls ...*Call) error {
	if err := s.start(ctx, calls); err != nil {
		return err
	}
	for _, c := range calls {
		select {
		case <-c.done:
			if c.fate != nil {
				return c.fate
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Done returns a channel that is closed when the call has its answer, or will never get one. The call must have been sent.
func (c *Call) Done() <-chan struct{} { return c.done }

// Answered reports whether the call, which is done, has its answer.
func (c *Call) Answered() bool { return c.fate == nil }

// start sends the calls on the present connection, or on the next.
func (s *Session) start(ctx context.Context, calls []*Call) error {
	first := -1
	for {
		if err := ctx.Err(); err != nil {
			return &Unsent{err}
		}
		s.mu.Lock()
		c, over, turned, rounds, failure := s.conn, s.over, s.turned, s.rounds, s.failure
		s.mu.Unlock()
		if first < 0 {
			first = rounds
		}
		switch {
		case over != nil:
			return over
		case c != nil && c.send(calls) == nil:
			return nil
		case c != nil:
			turned = nil // this connection is about to be replaced; look again soon
		case rounds > first:
			return &Unsent{failure}
		}
		if turned == nil {
			if err := s.settled(ctx, c); err != nil {
				return &Unsent{err}
			}
			continue
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return &Unsent{ctx.Err()}
		}
	}
}

// settled waits until a dead connection is no longer the session's.
func (s *Session) settled(ctx context.Context, old *conn) error {
	for {
		s.mu.Lock()
		same, turned := s.conn == old && s.over == nil, s.turned
		s.mu.Unlock()
		if !same {
			return nil
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close ends the session, and every call. With leave the ensemble ends the session too, and removes its ephemeral nodes at
// once; without leave they stay until the timeout.
func (s *Session) Close(leave bool) {
	s.mu.Lock()
	s.closing = true
	c := s.conn
	s.mu.Unlock()
	if leave && c != nil {
		bye := newCall(opClose, "", nil, nil)
		if c.send([]*Call{bye}) == nil {
			limit := time.NewTimer(farewell)
			select {
			case <-bye.done:
			case <-limit.C:
			}
			limit.Stop()
		}
	}
	s.end(ErrClosed)
	<-s.ran
}

// end marks the session as over.
func (s *Session) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over == nil {
		s.over = err
		s.cancel()
		s.turnLocked()
	}
}

// turnLocked wakes the goroutines that wait for a change.
func (s *Session) turnLocked() {
	close(s.turned)
	s.turned = make(chan struct{})
}

// heard notes an answer.
func (s *Session) heard(zxid int64, sent time.Duration, agreed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zxid = max(s.zxid, zxid)
	s.trust.note(sent, Now(), agreed, false)
}

// run keeps a connection until the session is over. It pauses between tries, longer after each failure; a connection that
// was lost at once counts as a failure.
func (s *Session) run() {
	defer close(s.ran)
	to := newTour(s.conf.Hosts)
	delay, failed, silent := retryMin, 0, 0
	for s.ctx.Err() == nil {
		host := to.next(Now())
		c, err := s.connect(host, silent)
		if silent++; !errors.Is(err, errSilent) {
			silent = 0
		}
		if errors.Is(err, ErrExpired) || errors.Is(err, ErrRefused) {
			s.lose(err)
			return
		}
		begun, connected := Now(), err == nil
		if connected {
			failed = 0
			err = s.keep(c)
		} else {
			failed++
		}
		if errors.Is(err, errSilent) {
			to.shun(host, Now()+s.Timeout())
		}
		switch {
		case connected && Now()-begun > retryMax:
			delay = retryMin
			continue
		case !connected && !s.failed(err, failed%len(s.conf.Hosts) == 0):
			continue
		}
		select {
		case <-s.ctx.Done():
		case <-time.After(delay/2 + rand.N(delay/2)):
		}
		delay = min(2*delay, retryMax)
	}
}

// failed notes why the connection to a host failed, and returns whether all hosts have failed by now.
func (s *Session) failed(err error, round bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
	if round {
		s.rounds++
		s.turnLocked()
	}
	return round
}

// lose ends a session that its user has not closed.
func (s *Session) lose(err error) {
	s.end(err)
	if !errors.Is(s.Err(), ErrClosed) && s.conf.Hurt != nil {
		s.conf.Hurt(s)
	}
}

// keep uses a connection until it is lost, sends signs of life, and returns why it was lost.
func (s *Session) keep(c *conn) error {
	s.mu.Lock()
	if over := s.over; over != nil {
		s.mu.Unlock()
		c.Close()
		return over
	}
	s.conn = c
	s.turnLocked()
	timeout := s.me.timeout
	s.mu.Unlock()
	stop := context.AfterFunc(s.ctx, func() { c.Close() })
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		s.meet(c)
		s.beat(c, timeout/beats)
	}()
	err := c.serve()
	stop()
	<-beating
	s.mu.Lock()
	s.conn = nil
	s.failure = err
	s.turnLocked()
	closing := s.closing || s.over != nil
	s.mu.Unlock()
	switch {
	case closing:
	case errors.Is(err, ErrExpired) || errors.Is(err, ErrRefused):
		s.lose(err)
	case s.conf.Hurt != nil:
		s.conf.Hurt(s)
	}
	return err
}

// beat sends signs of life until the connection is over. While Busy is true, a quorum must agree to them.
func (s *Session) beat(c *conn, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-c.ended:
			return
		case <-ticker.C:
		}
		s.mu.Lock()
		lone := s.trust.lone
		s.mu.Unlock()
		if !lone && s.conf.Busy != nil && s.conf.Busy() {
			_ = c.send([]*Call{Agree(s.conf.Path)}) // if it fails, the connection ends
			continue
		}
		c.ping()
	}
}

// ConfigPath is the node with the list of an ensemble's servers. On a lone server it is empty.
const ConfigPath = "/zookeeper/config"

// Voters counts the voting servers in the data of [ConfigPath].
func Voters(config string) (n int) {
	for line := range strings.Lines(config) {
		if strings.HasPrefix(line, "server.") && !strings.Contains(line, ":observer") {
			n++
		}
	}
	return n
}

// meet asks the server of each new connection whether it is the only one: an ensemble may have replaced a lone server
// between two connections.
func (s *Session) meet(c *conn) {
	ask := Get(ConfigPath, nil)
	if c.send([]*Call{ask}) != nil {
		return
	}
	<-ask.done
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == c {
		s.trust.lone = ask.fate == nil && ask.Err == nil && Voters(ask.Data) == 0
	}
}
