package etcd_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/store/etcd"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A holdup stands in a client of etcd. It can hold up requests for keys, and their answers. A proxy could not: all requests
// share one connection of HTTP/2, so it would hold up all of them or none.
type holdup struct {
	drivertest.CallWay
	revoking drivertest.CallWay // holds up revocations of leases

	mu    sync.Mutex                        // guards the fields below
	loses func(method string, req any) bool // reports whether the answer to a request gets lost; nil means that none does
	lost  int                               // number of lost answers
}

func (h *holdup) intercept(
	ctx context.Context, method string, req, reply any, c *grpc.ClientConn, call grpc.UnaryInvoker, o ...grpc.CallOption,
) error {
	h.mu.Lock()
	loses := h.loses != nil && h.loses(method, req)
	if loses {
		h.lost++
	}
	h.mu.Unlock()
	if loses {
		_ = call(ctx, method, req, reply, c, o...)
		return status.Error(codes.Unavailable, "the connection broke")
	}
	unheard := func(ctx context.Context) {
		// The caller's option would race: the caller reads its peer when it ends, which may be now.
		own := slices.DeleteFunc(slices.Clone(o), func(o grpc.CallOption) bool {
			_, peer := o.(grpc.PeerCallOption)
			return peer
		})
		_ = call(ctx, method, req, reflect.New(reflect.TypeOf(reply).Elem()).Interface(), c, own...)
	}
	var err error
	switch {
	case strings.HasPrefix(method, "/etcdserverpb.KV/"):
		err = h.Meet(ctx, unheard)
	case method == pb.Lease_LeaseRevoke_FullMethodName:
		err = h.revoking.Meet(ctx, unheard)
	}
	if err != nil && ctx.Err() == nil {
		return status.Error(codes.Unavailable, "the connection broke")
	}
	if err != nil {
		return ctx.Err()
	}
	return call(ctx, method, req, reply, c, o...)
}

// heldUp returns a driver whose requests for keys can be held up.
func heldUp(t testing.TB, addrs ...string) (*etcd.Driver, *holdup) {
	t.Helper()
	h := &holdup{}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: addrs, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(h.intercept)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	d, err := etcd.New(drive.Timely(t), client, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, h
}

func detour(t testing.TB, addr string) *drivertest.Detour {
	t.Helper()
	d, h := heldUp(t, addr)
	return &drivertest.Detour{Driver: d, Way: way{h}}
}

// A way is a holdup that also holds up revocations of leases. They arrive after the other requests.
type way struct{ *holdup }

func (w way) Hold(after int) {
	w.CallWay.Hold(after)
	w.revoking.Hold(0)
}

func (w way) Pass() {
	w.CallWay.Pass()
	w.revoking.Pass()
}

func (w way) Arrive() {
	if w.CallWay.Held() > 0 {
		w.CallWay.Arrive()
		return
	}
	w.revoking.Arrive()
}
