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
	// streamTries is how often a keep-alive is sent if its stream breaks before the answer.
	streamTries = 3

	// silence is how long a stream may leave its first keep-alive unanswered once some caller has given up. Then the stream
	// is given up too.
	silence = patience / 2
)

// A keepAliver keeps leases alive, all on one stream. etcd answers the keep-alives of a stream in their order. If a caller
// gives up, its keep-alive stays in the order, so that its late answer is not taken for the answer to a later keep-alive.
// The stream stays too: if it ended with each caller that gave up, impatient callers would keep all others from an answer.
type keepAliver struct {
	wire   *wire
	client pb.LeaseClient
	mu     sync.Mutex // guards now
	now    *stream    // nil between streams
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

	sending sync.Mutex // makes the order of sending the order in asked
	mu      sync.Mutex // guards the fields below
	asked   []*keepAlive
	err     error         // why it ended
	left    bool          // this client gave it up: a caller's context ended, or its member was silent
	heard   time.Duration // when the last answer came, by boottime
}

// leave is called when a caller gives up. Once the first keep-alive has been unanswered for silence, the stream is given up.
func (s *stream) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) > 0 {
		first := s.asked[0]
		time.AfterFunc(max(0, silence-(boottime.Now()-first.sent)), func() { s.giveUp(first) })
	}
}

// giveUp ends the stream if this keep-alive is still the first unanswered one.
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

// elsewhere gives the stream up if it has answered nothing for hush, and another member seems to answer.
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

	// Guarded by the stream's mu:
	sent  time.Duration // by boottime
	ttl   time.Duration // 0 means that the lease has ended
	err   error
	again bool // the stream ended before etcd answered; it may be sent again
}

// keep keeps leases alive, and returns an answer or an error at the index of each lease. The error is [driver.ErrSession] if
// the lease has ended. An answer counts only once [upkeep.confirm] has succeeded.
func (a *keepAliver) keep(ctx context.Context, leases []*lease) ([]extension, []error) {
	all, errs := make([]extension, len(leases)), make([]error, len(leases))
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
				all[at] = extension{ka.ttl, ka.sent + ka.ttl}
			}
		}
		open = rest
	}
	return all, errs
}

// one keeps one lease alive.
func (a *keepAliver) one(ctx context.Context, l *lease) (extension, error) {
	all, errs := a.keep(ctx, []*lease{l})
	return all[0], errs[0]
}

// send sends keep-alives, and returns their answers once all have one, the stream has ended, or ctx ends. counts reports
// whether the call counts as a try. It does not count if the stream ended for another reason than a failure of etcd or the
// connection: etcd refused one keep-alive of the list, or a caller gave the stream up.
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

// ask sends keep-alives in their order.
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
			s.cancel() // Recv returns the reason
			return
		}
	}
}

// stream returns the present stream, or begins one.
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

// run opens a stream, and hands out its answers until it ends.
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

// answer hands an answer to the first unanswered keep-alive.
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

// end ends all unanswered keep-alives with the stream's error. If etcd refused one, it was the first; the others may be sent
// again.
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

// refusal reports whether the error is etcd's answer, and would be its answer again.
func refusal(err error) bool {
	_, ok := errors.AsType[rpctypes.EtcdError](rpctypes.Error(err))
	return ok && status.Code(err) != codes.Unavailable
}
