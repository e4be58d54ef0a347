package etcd_test

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/stilelock/stile/drivertest"
	"github.com/stilelock/stile/etcd"
	"github.com/stilelock/stile/internal/drive"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A holdup stands in a client of etcd and holds requests up on their way, or loses answers. All requests share one
// connection of HTTP/2, where a proxy could hold up all of them or none.
type holdup struct {
	mu          sync.Mutex // guards what follows
	holds       bool       // requests for keys
	holdsMethod string     // and those of this method
	held        []func()
	loses       func(method string, req any) bool // whether etcd's answer to a request does not arrive; nil means none
	lost        int
}

func (h *holdup) Hold() { h.set(true) }
func (h *holdup) Pass() { h.set(false) }

func (h *holdup) set(holds bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds = holds
}

// Arrive sends what was held up, in order.
func (h *holdup) Arrive() {
	h.mu.Lock()
	held := h.held
	h.held = nil
	h.mu.Unlock()
	for _, send := range held {
		send()
	}
}

func (h *holdup) intercept(
	ctx context.Context, method string, req, reply any, c *grpc.ClientConn, call grpc.UnaryInvoker, o ...grpc.CallOption,
) error {
	h.mu.Lock()
	holds := method == h.holdsMethod || h.holds && strings.HasPrefix(method, "/etcdserverpb.KV/")
	if holds {
		h.held = append(h.held, func() {
			_ = call(context.WithoutCancel(ctx), method, req, reflect.New(reflect.TypeOf(reply).Elem()).Interface(), c, o...)
		})
	}
	loses := h.loses != nil && h.loses(method, req)
	if loses {
		h.lost++
	}
	h.mu.Unlock()
	switch {
	case loses:
		_ = call(ctx, method, req, reply, c, o...)
		return status.Error(codes.Unavailable, "the connection broke")
	case !holds:
		return call(ctx, method, req, reply, c, o...)
	}
	<-ctx.Done()
	return ctx.Err()
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
	return &drivertest.Detour{Driver: d, Way: h}
}
