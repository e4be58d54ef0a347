package etcd

import (
	"cmp"
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

const (
	// streamTries is how often a keep-alive is sent that a broken stream took along.
	streamTries = 3

	// silence is how long a stream may leave a keep-alive without an answer, if its caller does not wait that long, before it is
	// given up.
	silence = patience / 2
)

// A keepAliver keeps leases alive, all on one stream, where etcd answers in the order in which it was asked. A keep-alive whose
// caller does not wait any more keeps its place there, so that its late answer is not taken for that to a later question, and
// the callers of others go on waiting. Were the stream given up with each caller that ends, those that end sooner than
// etcd answers would keep all others from an answer.
type keepAliver struct {
	wire   *wire
	client pb.LeaseClient
	mu     sync.Mutex // guards now
	now    *stream    // nil if there is none
}

func newKeepAliver(w *wire) *keepAliver {
	return &keepAliver{wire: w, client: pb.NewLeaseClient(w.client.ActiveConnection())}
}

// A stream is one stream of keep-alives.
type stream struct {
	try    *try
	opened chan struct{} // closed when it is open
	over   chan struct{} // closed when it has ended
	sender pb.Lease_LeaseKeepAliveClient

	sending sync.Mutex // orders what is sent as it is in asked
	mu      sync.Mutex // guards what follows
	asked   []*keepAlive
	err     error         // why it ended
	left    bool          // it was given up, since a caller's context ended or its member was silent
	heard   time.Duration // when the last answer came, by boottime
}

// leave notes that a caller does not wait for its answer any more. The stream is given up once it is silent for too long.
func (s *stream) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) > 0 {
		first := s.asked[0]
		time.AfterFunc(max(0, silence-(boottime.Now()-first.sent)), func() { s.giveUp(first) })
	}
}

// giveUp ends a stream on which a keep-alive is still the first without an answer.
func (s *stream) giveUp(first *keepAlive) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) > 0 && s.asked[0] == first {
		s.left = true
		s.cancel()
	}
}

// cancel ends the stream.
func (s *stream) cancel() { s.try.cancel(nil) }

// elsewhere gives a stream up that has answered nothing for too long, if another member seems to answer.
func (s *stream) elsewhere(first *keepAlive) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) > 0 && s.asked[0] == first && boottime.Now()-s.heard >= hush && s.try.others.Load() {
		s.left = true
		s.try.cancel(errSilent)
	}
}

// A keepAlive is one keep-alive, and its answer.
type keepAlive struct {
	lease *lease
	done  chan struct{} // closed when it has an answer, or the stream ended

	sent  time.Duration // guarded by the stream's mu, as the rest
	ttl   time.Duration // 0 means that the lease is no more
	err   error
	again bool // nothing is known of it: the stream ended before
}

// keep keeps leases alive and answers each at the same index: the error is [driver.ErrSession] if it is no more. What it returns
// of the others counts once [upkeep.confirm] has succeeded.
func (a *keepAliver) keep(ctx context.Context, leases []*lease) ([]kept, []error) {
	all, errs := make([]kept, len(leases)), make([]error, len(leases))
	open := make([]int, len(leases))
	for i := range leases {
		open[i] = i
	}
	for tries := 0; len(open) > 0; {
		list := make([]*keepAlive, len(open))
		for i, at := range open {
			list[i] = &keepAlive{lease: leases[at], done: make(chan struct{})}
		}
		answers, counts := a.send(ctx, list)
		if counts {
			tries++
		}
		rest := open[:0:0]
		for i, at := range open {
			ka := &answers[i]
			switch {
			case ka.again && ctx.Err() == nil && tries < streamTries:
				rest = append(rest, at)
			case ka.err != nil:
				errs[at] = ka.err
			case ka.ttl <= 0:
				errs[at] = driver.ErrSession
			default:
				all[at] = kept{ka.ttl, ka.sent + ka.ttl}
			}
		}
		open = rest
	}
	return all, errs
}

// one keeps one lease alive.
func (a *keepAliver) one(ctx context.Context, l *lease) (kept, error) {
	all, errs := a.keep(ctx, []*lease{l})
	return all[0], errs[0]
}

// send sends keep-alives and waits for their answers, which it returns as they are when ctx ends. It reports whether that was a
// try that etcd, or the way there, failed as a whole: it was none if etcd refused one of them, and so ended the stream of the
// others, or if another caller did.
func (a *keepAliver) send(ctx context.Context, list []*keepAlive) (answers []keepAlive, counts bool) {
	s := a.stream()
	stop := context.AfterFunc(ctx, s.leave)
	defer stop()
	select {
	case <-s.opened:
		s.ask(list)
	case <-s.over:
	case <-ctx.Done():
	}
	for _, ka := range list {
		select {
		case <-ka.done:
		case <-s.over:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	counts = !s.left
	for _, ka := range list {
		answer := *ka
		select {
		case <-ka.done:
			counts = counts && (ka.err == nil || ka.again)
		default:
			answer.again, answer.err = true, cmp.Or(ctx.Err(), s.err)
		}
		answers = append(answers, answer)
	}
	return answers, counts
}

// ask sends keep-alives one after the other.
func (s *stream) ask(list []*keepAlive) {
	s.sending.Lock()
	defer s.sending.Unlock()
	time.AfterFunc(hush, func() { s.elsewhere(list[0]) })
	for _, ka := range list {
		s.mu.Lock()
		ka.sent = boottime.Now()
		s.asked = append(s.asked, ka)
		s.mu.Unlock()
		if err := s.sender.Send(&pb.LeaseKeepAliveRequest{ID: ka.lease.id}); err != nil {
			s.cancel() // Recv tells why
			return
		}
	}
}

// stream returns the one there is, or begins one.
func (a *keepAliver) stream() *stream {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.now != nil {
		return a.now
	}
	s := &stream{opened: make(chan struct{}), over: make(chan struct{}), err: driver.ErrClosed}
	var ctx context.Context
	ctx, s.try = newTry(clientv3.WithRequireLeader(a.wire.ctx), true)
	a.now = s
	if !a.wire.life.Go(func() { a.run(ctx, s) }) {
		s.cancel()
		close(s.over)
		a.now = nil
	}
	return s
}

// run opens a stream and hands the answers out until it ends.
func (a *keepAliver) run(ctx context.Context, s *stream) {
	defer s.cancel()
	var err error
	if s.sender, err = a.client.LeaseKeepAlive(ctx); err == nil {
		close(s.opened)
		for err == nil {
			var r *pb.LeaseKeepAliveResponse
			if r, err = s.sender.Recv(); err == nil {
				err = s.answer(r)
			}
		}
	}
	a.mu.Lock()
	if a.now == s {
		a.now = nil
	}
	a.mu.Unlock()
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
	ka := s.asked[0]
	s.asked = s.asked[1:]
	s.heard = boottime.Now()
	ka.ttl = time.Duration(r.TTL) * time.Second
	close(ka.done)
	return nil
}

// end tells those who wait why the stream ended. What etcd refused is the first; the rest may try again.
func (s *stream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	for i, ka := range s.asked {
		ka.err = err
		ka.again = i > 0 || !refusal(err)
		close(ka.done)
	}
	s.asked = nil
}

// refusal reports whether etcd answered with this error, and would again.
func refusal(err error) bool {
	_, ok := errors.AsType[rpctypes.EtcdError](rpctypes.Error(err))
	return ok && status.Code(err) != codes.Unavailable
}
