package etcd

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/work"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// patience bounds each call. A member can lose a request while the leader changes, and then answers much later; to ask
// again is harmless.
const patience = 2 * time.Second

// mostAtOnce bounds the keys of one transaction, unless the servers take fewer; etcd's default limit is 128 operations.
const mostAtOnce = 100

// A wire sends requests to etcd: it bounds their time, explains their errors, and checks that the same store answers all of
// them. It knows nothing of claims.
type wire struct {
	client *clientv3.Client
	user   string
	secret string // the password, which no message may show

	prefix   string
	patience time.Duration // bounds each call
	identity storeIdentity
	atOnce   atomic.Int64 // limit of the keys in one transaction

	life *work.Life
	ctx  context.Context // life's
}

func newWire(prefix string, life *work.Life) *wire {
	w := &wire{prefix: prefix, patience: patience, life: life, ctx: life.Context()}
	w.atOnce.Store(mostAtOnce)
	return w
}

// begin returns the context for requests on behalf of ctx. It ends with ctx, with the driver, or after the wire's patience.
// WithRequireLeader makes a member that knows no leader refuse requests at once instead of holding them. It stands outside
// of WithCancel: inside, it would hide the AfterFunc of the caller's context, and package context would start a goroutine
// for each request. A lock and unlock of a free name would then take 715 µs in place of 676
// (go run ./proof/benchbefore -stores etcd -only '^alone$', with the revision to compare with).
func (w *wire) begin(ctx context.Context) (context.Context, func(), error) {
	if w.ctx.Err() != nil {
		return nil, nil, driver.ErrClosed
	}
	if err := driver.Ended(ctx, false); err != nil {
		return nil, nil, err
	}
	bounded, cancel := context.WithCancel(ctx)
	stop, late := context.AfterFunc(w.ctx, cancel), time.AfterFunc(w.patience, cancel)
	return clientv3.WithRequireLeader(undated{bounded}), func() { stop(); late.Stop(); cancel() }, nil
}

// An undated context hides its deadline. gRPC sends a deadline to the member, and the member sets a timer for each request,
// beside the client's timer. This costs 32 µs of the 443 µs that the two transactions of a lock and unlock take with both
// on one core. A request that the client gives up ends in the member without a deadline too.
type undated struct{ context.Context }

func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }

// commit runs a transaction, and checks that the store that answers is the one that answered before.
func (w *wire) commit(
	ctx context.Context, conditions []clientv3.Cmp, then, otherwise []clientv3.Op,
) (*clientv3.TxnResponse, error) {
	seen := w.identity.seen()
	r, err := w.client.Txn(ctx).If(conditions...).Then(then...).Else(otherwise...).Commit()
	if err != nil {
		return nil, err
	}
	return r, w.identity.note(r.Header, seen)
}

// read reads keys at one revision.
func (w *wire) read(ctx context.Context, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	return w.commit(ctx, nil, ops, nil)
}

// readQueue returns the queue of a name, and the revision at which it was read.
func (w *wire) readQueue(ctx context.Context, name string) (queue, int64, error) {
	r, err := w.read(ctx, wholeQueue(w.folder(name)))
	if err != nil {
		return nil, 0, err
	}
	return queueOf(r.Responses[0].GetResponseRange().Kvs), r.Header.Revision, nil
}

var errOtherStore = errors.New("the etcd that answers is not the one that answered before, " +
	"or was restored from an old copy: its locks and tokens mean nothing here; open it anew")

// A storeIdentity is the store's identity by its answers so far. A store that was wiped, replaced or restored would give
// the same tokens again.
type storeIdentity struct {
	mu       sync.Mutex // guards the fields below
	cluster  uint64
	revision int64
	term     uint64 // the leader's
	broken   bool   // another store has answered
}

func (s *storeIdentity) seen() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// latest returns the latest leader's term of all answers.
func (s *storeIdentity) latest() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.term
}

// note checks the header of an answer. seen is the latest revision that was known before the request was sent.
func (s *storeIdentity) note(h *pb.ResponseHeader, seen int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == 0 {
		s.cluster = h.ClusterId
	}
	s.broken = s.broken || h.ClusterId != s.cluster || h.Revision < seen
	if s.broken {
		return driver.Refused(errOtherStore)
	}
	s.revision, s.term = max(s.revision, h.Revision), max(s.term, h.RaftTerm)
	return nil
}

// tooMany reports whether the servers refused a transaction about this many claims because it has too many operations. If
// so, it halves the limit for the next ones.
func (w *wire) tooMany(err error, claims int) bool {
	if claims < 2 || !errors.Is(err, rpctypes.ErrTooManyOps) {
		return false
	}
	w.atOnce.Store(int64(claims / 2))
	return true
}

// folder returns the prefix of the keys of a name.
func (w *wire) folder(name string) string { return w.prefix + driver.EncodeName(name) + "/" }

// revoked reports whether a request failed because a lease does not exist any more.
func (w *wire) revoked(ctx context.Context, err error) bool {
	return errors.Is(err, driver.ErrSession) || errors.Is(w.explain(ctx, err), driver.ErrSession)
}
