package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
)

// streamTries is how often a keep-alive is sent that a broken stream took along.
const streamTries = 3

// A pulse keeps leases alive, all on one stream, where etcd answers in the order in which it was asked. A stream on
// which an answer did not come in time is given up, so that no late answer is taken for that to a later question.
type pulse struct {
	d      *Driver
	client pb.LeaseClient
	mu     sync.Mutex // guards now
	now    *stream    // nil if there is none
}

func newPulse(d *Driver) *pulse {
	return &pulse{d: d, client: pb.NewLeaseClient(d.client.ActiveConnection())}
}

// A stream is one stream of keep-alives.
type stream struct {
	cancel context.CancelFunc
	opened chan struct{} // closed when it is open
	over   chan struct{} // closed when it has ended
	sender pb.Lease_LeaseKeepAliveClient

	sending sync.Mutex // orders what is sent as it is in asked
	mu      sync.Mutex // guards what follows
	asked   []*beat
	err     error // why it ended
}

// A beat is one keep-alive, and its answer.
type beat struct {
	lease *lease
	sent  time.Duration
	ttl   time.Duration // 0 means that the lease is no more
	err   error
	again bool // nothing is known of it: the stream ended before
	done  chan struct{}
}

// keep keeps leases alive and answers each at the same index: nil if its time began anew, [driver.ErrSession] if it is no more.
func (p *pulse) keep(ctx context.Context, leases []*lease) []error {
	errs := make([]error, len(leases))
	open := make([]int, len(leases))
	for i := range leases {
		open[i] = i
	}
	for tries := 0; len(open) > 0; {
		beats := make([]*beat, len(open))
		for i, at := range open {
			beats[i] = &beat{lease: leases[at], done: make(chan struct{})}
		}
		blamed := p.send(ctx, beats)
		if !blamed {
			tries++
		}
		rest := open[:0:0]
		for i, at := range open {
			b := beats[i]
			switch {
			case b.again && ctx.Err() == nil && tries < streamTries:
				rest = append(rest, at)
			case b.err != nil:
				errs[at] = b.err
			case b.ttl <= 0:
				errs[at] = driver.ErrSession
			default:
				b.lease.refreshed(b.sent, b.ttl)
			}
		}
		open = rest
	}
	return errs
}

// one keeps one lease alive.
func (p *pulse) one(ctx context.Context, l *lease) error { return p.keep(ctx, []*lease{l})[0] }

// send sends beats and waits for their answers. It reports whether etcd refused one of them, and so ended the stream of
// the others.
func (p *pulse) send(ctx context.Context, beats []*beat) (blamed bool) {
	s := p.stream()
	stop := context.AfterFunc(ctx, s.cancel)
	defer stop()
	select {
	case <-s.opened:
		s.ask(beats)
	case <-s.over:
	}
	for _, b := range beats {
		select {
		case <-b.done:
		case <-s.over:
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range beats {
		select {
		case <-b.done:
			blamed = blamed || b.err != nil && !b.again
		default:
			b.again, b.err = true, s.err
		}
	}
	return blamed
}

// ask sends beats one after the other.
func (s *stream) ask(beats []*beat) {
	s.sending.Lock()
	defer s.sending.Unlock()
	for _, b := range beats {
		b.sent = boottime.Now()
		s.mu.Lock()
		s.asked = append(s.asked, b)
		s.mu.Unlock()
		if err := s.sender.Send(&pb.LeaseKeepAliveRequest{ID: b.lease.id}); err != nil {
			s.cancel() // Recv tells why
			return
		}
	}
}

// stream returns the one there is, or begins one.
func (p *pulse) stream() *stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil {
		return p.now
	}
	s := &stream{opened: make(chan struct{}), over: make(chan struct{}), err: driver.ErrClosed}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(clientv3.WithRequireLeader(p.d.ctx))
	p.now = s
	if !p.d.spawn(func() { p.run(ctx, s) }) {
		s.cancel()
		close(s.over)
		p.now = nil
	}
	return s
}

// run opens a stream and hands the answers out until it ends.
func (p *pulse) run(ctx context.Context, s *stream) {
	defer s.cancel()
	var err error
	if s.sender, err = p.client.LeaseKeepAlive(ctx); err == nil {
		close(s.opened)
		for err == nil {
			var r *pb.LeaseKeepAliveResponse
			if r, err = s.sender.Recv(); err == nil {
				err = s.answer(r)
			}
		}
	}
	p.mu.Lock()
	if p.now == s {
		p.now = nil
	}
	p.mu.Unlock()
	s.end(err)
	close(s.over)
}

// answer hands an answer to the first who asked.
func (s *stream) answer(r *pb.LeaseKeepAliveResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) == 0 || s.asked[0].lease.id != r.ID {
		return fmt.Errorf("etcd answered for lease %x, which is not the one that was asked for", r.ID)
	}
	b := s.asked[0]
	s.asked = s.asked[1:]
	b.ttl = time.Duration(r.TTL) * time.Second
	close(b.done)
	return nil
}

// end tells those who wait why the stream ended. What etcd refused is the first; the rest may try again.
func (s *stream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	for i, b := range s.asked {
		b.err = err
		b.again = i > 0 || !refusal(err)
		close(b.done)
	}
	s.asked = nil
}

// refusal reports whether etcd answered with this error, and would again.
func refusal(err error) bool {
	_, ok := errors.AsType[rpctypes.EtcdError](rpctypes.Error(err))
	return ok && status.Code(err) != codes.Unavailable
}
