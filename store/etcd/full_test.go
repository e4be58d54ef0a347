package etcd

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// A fullness stands in a client of etcd, and answers transactions as a full server does.
type fullness struct {
	mu      sync.Mutex                // guards the fields below
	about   func(*pb.TxnRequest) bool // picks the transactions; nil picks none
	applies bool                      // they are applied, as if accepted before the server was full
}

// set changes the answers to the transactions that about picks; nil picks none.
func (f *fullness) set(applies bool, about func(*pb.TxnRequest) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.about, f.applies = about, applies
}

func (f *fullness) intercept(
	ctx context.Context, method string, req, reply any, c *grpc.ClientConn, call grpc.UnaryInvoker, o ...grpc.CallOption,
) error {
	txn, ok := req.(*pb.TxnRequest)
	f.mu.Lock()
	full, applies := ok && f.about != nil && f.about(txn), f.applies
	f.mu.Unlock()
	if full && !applies {
		return rpctypes.ErrGRPCNoSpace
	}
	if err := call(ctx, method, req, reply, c, o...); err != nil || !full {
		return err
	}
	return rpctypes.ErrGRPCNoSpace
}

// filled returns a driver, and the fullness of its client.
func filled(t testing.TB, addr string) (*Driver, *fullness) {
	t.Helper()
	f := &fullness{}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{addr}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(f.intercept)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	d, err := New(timely(t), client, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, f
}

// puts reports whether a transaction puts a key, itself or in a transaction inside it.
func puts(txn *pb.TxnRequest) bool {
	for _, op := range txn.Success {
		if op.GetRequestPut() != nil || op.GetRequestTxn() != nil && puts(op.GetRequestTxn()) {
			return true
		}
	}
	return false
}

// rewrites reports whether a transaction only rewrites a key that is there.
func rewrites(txn *pb.TxnRequest) bool {
	return len(txn.Success) == 1 && puts(txn) && txn.Compare[0].GetModRevision() > 0
}

// doubtful fails unless an error says that etcd is full, and that the request may have been applied.
func doubtful(t testing.TB, err error) {
	t.Helper()
	says(t, err, "etcd has no space left")
	if driver.OutcomeOf(err) != driver.OutcomeUnknown {
		t.Errorf("outcome of %v = %v; want it unknown", err, driver.OutcomeOf(err))
	}
}

// A downgrade that a full etcd applied is not reported as refused, and the same downgrade again finds it done.
func TestFullHasApplied(t *testing.T) {
	t.Parallel()
	d, f := filled(t, servertest.Etcd(t).Addr)
	writer := claimOn("name")
	enter(t, d, writer)
	down := *writer
	down.Amend = &driver.Amendment{Weight: 1}
	f.set(true, rewrites)
	doubtful(t, renew(t, d, &down))
	f.set(false, puts) // as long as it is full
	if err := renew(t, d, &down); err != nil {
		t.Errorf("the same downgrade again = %v; want nil", err)
	}
	reader := claimOn("name")
	reader.Weight = 1
	f.set(false, nil)
	if p := enter(t, d, reader); !p.Holds {
		t.Errorf("a reader beside it = %+v; want it to hold", p)
	}
}

// If a full etcd may have attached a key to the lease with the lock-delay, this lease serves no other claim.
func TestFullMayHaveMoved(t *testing.T) {
	t.Parallel()
	d, f := filled(t, servertest.Etcd(t).Addr)
	c := claimOn("name")
	c.Delay = time.Minute
	f.set(true, rewrites)
	_, err := d.Enter(timely(t), c)
	doubtful(t, err)
	f.set(false, nil)
	if n := idle(d); n != 0 {
		t.Errorf("%d leases are in the pool; want none", n)
	}
	if p := enter(t, d, c); !p.Holds {
		t.Errorf("the same claim again = %+v; want it to hold", p)
	}
	if err := renew(t, d, c); err != nil {
		t.Errorf("renewal = %v; want nil", err)
	}
}

// A claim whose key a full etcd has put keeps its key and its lease, and its client can remove it.
func TestFullMayHaveLetIn(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	d, f := filled(t, s.Addr)
	c := claimOn("name")
	f.set(true, puts)
	_, err := d.Enter(timely(t), c)
	doubtful(t, err)
	if left := keys(t, operator(t, s.Addr), d.wire.folder("name")); len(left) != 1 || idle(d) != 0 {
		t.Errorf("keys %q, and %d leases in the pool; want the key of the claim, and no lease", left, idle(d))
	}
	leave(t, d, c)
}

// If a full etcd has not changed the key of a claim, the request is reported as refused.
func TestFullHasNotApplied(t *testing.T) {
	t.Parallel()
	d, f := filled(t, servertest.Etcd(t).Addr)
	holder := claimOn("name")
	enter(t, d, holder)
	provide(t, d, 1)
	f.set(false, puts)
	_, err := d.Enter(timely(t), claimOn("other"))
	down := *holder
	down.Amend = &driver.Amendment{Weight: 1}
	for _, err := range []error{err, renew(t, d, &down)} {
		says(t, err, "etcd has no space left")
		if driver.OutcomeOf(err) != driver.OutcomeRefused {
			t.Errorf("outcome of %v = %v; want it refused", err, driver.OutcomeOf(err))
		}
	}
	leave(t, d, holder)
}

// If a Leave goes together with a request that a full etcd does not apply, the claim leaves all the same, and Leave does not
// report ErrGone.
func TestFullLetsLeaveTogether(t *testing.T) {
	t.Parallel()
	for _, applies := range []bool{false, true} {
		s := servertest.Etcd(t)
		d, f := filled(t, s.Addr)
		holder := claimOn("name")
		enter(t, d, holder)
		provide(t, d, 1)
		f.set(applies, puts)
		var left, entered error
		together(t, d,
			func() { left = d.Leave(timely(t), &driver.Release{Claim: holder}) },
			func() { _, entered = d.Enter(timely(t), claimOn("other")) })
		if applies {
			doubtful(t, entered)
			doubtful(t, left)
		} else if left != nil || driver.OutcomeOf(entered) != driver.OutcomeRefused {
			t.Errorf("leave = %v, enter = %v; want nil, and a refusal", left, entered)
		}
		if err := d.Leave(timely(t), &driver.Release{Claim: holder}); !errors.Is(err, driver.ErrGone) {
			t.Errorf("leaving again = %v; want ErrGone", err)
		}
	}
}

// idle returns the number of leases in the pool.
func idle(d *Driver) int {
	d.pool.mu.Lock()
	defer d.pool.mu.Unlock()
	return d.pool.count
}
