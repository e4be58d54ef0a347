package etcd

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/internal/boottime"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/endpointsharding"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/connectivity"
)

const (
	// hush is how long a member may leave a request unanswered while another member seems to answer. A frozen member keeps
	// its connections open.
	hush = 500 * time.Millisecond

	// suspectFor is how long a silent member is asked last. A ping ends its connection after about the same time.
	suspectFor = pingAfter + pingWithin

	ringName = "stile_etcd_ring"
)

var errSilent = errors.New("etcd gave no answer in time")

func init() { balancer.Register(ringBuilder{}) }

// elsewhereOptions make a client of several members go on from a silent member to the next.
func elsewhereOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"` + ringName + `": {}}]}`),
		grpc.WithChainUnaryInterceptor(elsewhere),
	}
}

// A try is one request, or one stream, on its way to a member.
type try struct {
	cancel context.CancelCauseFunc
	stream bool
	others atomic.Bool // another member is connected, and was not silent
}

type tryKey struct{}

// newTry returns a context for one request or stream. To cancel it with errSilent makes its member the last to be asked.
func newTry(ctx context.Context, stream bool) (context.Context, *try) {
	t := &try{stream: stream}
	ctx, t.cancel = context.WithCancelCause(ctx)
	return context.WithValue(ctx, tryKey{}, t), t
}

// elsewhere gives up a request that a member leaves unanswered for hush. If the request is repeatable, elsewhere sends it to
// the next member. The outcome of any other request is then unknown.
func elsewhere(
	ctx context.Context, method string, req, reply any, c *grpc.ClientConn, call grpc.UnaryInvoker, o ...grpc.CallOption,
) error {
	for {
		bounded, t := newTry(ctx, false)
		late := time.AfterFunc(hush, func() {
			if t.others.Load() {
				t.cancel(errSilent)
			}
		})
		err := call(bounded, method, req, reply, c, o...)
		late.Stop()
		t.cancel(nil)
		if err == nil || ctx.Err() != nil || !errors.Is(context.Cause(bounded), errSilent) {
			return err
		}
		if !repeatable(req) {
			return errSilent // not the context's error, at which the library would send the request again
		}
	}
}

// repeatable reports whether etcd may apply a request twice: it only reads, or it grants a lease whose id etcd chooses.
func repeatable(req any) bool {
	switch r := req.(type) {
	case *pb.RangeRequest, *pb.LeaseTimeToLiveRequest:
		return true
	case *pb.LeaseGrantRequest:
		return r.ID == 0
	case *pb.TxnRequest:
		for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
			for _, op := range ops {
				if op.GetRequestRange() == nil {
					return false
				}
			}
		}
		return true
	}
	return false
}

type ringBuilder struct{}

func (ringBuilder) Name() string { return ringName }

func (ringBuilder) Build(cc balancer.ClientConn, o balancer.BuildOptions) balancer.Balancer {
	r := &ring{ClientConn: cc, until: map[string]time.Duration{}, streams: map[string]map[*try]bool{}}
	r.Balancer = endpointsharding.NewBalancer(r, o, balancer.Get(pickfirst.Name).Build, endpointsharding.Options{})
	return r
}

// A ring asks the connected members in turn, and silent members last.
type ring struct {
	balancer.Balancer
	balancer.ClientConn
	next atomic.Uint32

	mu      sync.Mutex               // guards the fields below
	until   map[string]time.Duration // by member: the end of its time as the last, by boottime
	streams map[string]map[*try]bool // the open streams, by member
}

// ExitIdle implements [balancer.Balancer].
func (r *ring) ExitIdle() { r.Balancer.ExitIdle() }

// UpdateState makes the ring choose among the connected members.
func (r *ring) UpdateState(s balancer.State) {
	if s.ConnectivityState == connectivity.Ready {
		p := &picker{ring: r}
		for _, child := range endpointsharding.ChildStatesFromPicker(s.Picker) {
			if child.State.ConnectivityState == connectivity.Ready {
				p.members = append(p.members, child)
			}
		}
		s.Picker = p
	}
	r.ClientConn.UpdateState(s)
}

// choose returns the index of the next member. others reports whether another connected member was not silent.
func (r *ring) choose(members []endpointsharding.ChildState, now time.Duration) (at int, others bool) {
	first := int(r.next.Add(1) % uint32(len(members))) //nolint:gosec // a few members
	r.mu.Lock()
	defer r.mu.Unlock()
	at = -1
	for i := range members {
		switch n := (first + i) % len(members); {
		case r.until[members[n].Endpoint.Addresses[0].Addr] > now:
		case at < 0:
			at = n
		default:
			return at, true
		}
	}
	return max(at, 0), false
}

// opened notes a stream, so that it is cut when its member is silent.
func (r *ring) opened(addr string, t *try) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streams[addr] == nil {
		r.streams[addr] = map[*try]bool{}
	}
	r.streams[addr][t] = true
}

// over notes the end of a request or stream. If the member left it unanswered, the member is asked last from now on, and its
// streams are cut.
func (r *ring) over(addr string, t *try, silent bool) {
	r.mu.Lock()
	delete(r.streams[addr], t)
	var cut []*try
	if silent {
		r.until[addr] = boottime.Now() + suspectFor
		for s := range r.streams[addr] {
			cut = append(cut, s)
		}
	}
	r.mu.Unlock()
	for _, s := range cut {
		s.cancel(errSilent)
	}
}

type picker struct {
	ring    *ring
	members []endpointsharding.ChildState
}

// Pick chooses a member for a request.
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	began := boottime.Now()
	at, others := p.ring.choose(p.members, began)
	addr := p.members[at].Endpoint.Addresses[0].Addr
	picked, err := p.members[at].State.Picker.Pick(info)
	t, ok := info.Ctx.Value(tryKey{}).(*try)
	if err != nil || !ok {
		return picked, err
	}
	t.others.Store(others)
	if t.stream {
		p.ring.opened(addr, t)
	}
	done := picked.Done
	picked.Done = func(i balancer.DoneInfo) {
		if done != nil {
			done(i)
		}
		// A caller that gives up before hush has met silence too.
		met := !t.stream && others && i.Err != nil && !i.BytesReceived && boottime.Now()-began >= hush/2
		p.ring.over(addr, t, met || errors.Is(context.Cause(info.Ctx), errSilent))
	}
	return picked, nil
}
