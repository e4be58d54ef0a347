//go:build unix

package remote_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/store/memory"
)

// busy answers some requests as a service does that has too much to do.
func busy(left *atomic.Int64, path string, seconds int) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != path || left.Add(-1) < 0 {
				next.ServeHTTP(w, r)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body) // the client has sent it
			w.Header().Set("Retry-After", strconv.Itoa(seconds))
			w.Header().Set("Content-Type", api.JSON)
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"code":"too_many","outcome":"unsent","unreachable":true,"message":"the lock service has too much to do"}`)
		})
	}
}

// A request that a busy service refuses did not happen: the client sends it again when the service says, and to another
// host at once. If its context ends before, the error is the service's.
func TestBusy(t *testing.T) {
	t.Parallel()
	var left atomic.Int64
	store := memory.NewStore()
	first, _ := service(t, store.Driver(), busy(&left, api.Enter, 1))
	d := open(t, first)
	left.Store(2)
	begin := time.Now()
	drive.Holds(t, d, drive.Claim("a", "x"))
	if took := time.Since(begin); took < 2*time.Second || left.Load() != -1 {
		t.Errorf("the third request after %v, with %d left; want two pauses of a second", took, left.Load())
	}
	left.Store(1000)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := d.Enter(ctx, drive.Claim("b", "x"))
	judge(t, "enter at a busy service", err, driver.OutcomeUnsent, true)
	if !errors.Is(err, api.ErrTooMany) || !strings.Contains(err.Error(), "too much to do") || left.Load() != 999 {
		t.Errorf("enter = %v after %d requests; want the service's error after one", err, 1000-left.Load())
	}
	second, _ := service(t, store.Driver(), nobody)
	both := open(t, first, second)
	left.Store(1000)
	drive.Holds(t, both, drive.Claim("b", "y"))
	if left.Load() != 999 {
		t.Errorf("the busy host was asked %d times; want once, and then the other", 1000-left.Load())
	}
}

// A busy service is asked again when it says, though the other host cannot be reached: that host was asked last, and its error says
// nothing of when to ask.
func TestBusyBesideTheDead(t *testing.T) {
	t.Parallel()
	var left, dead atomic.Int64
	store := memory.NewStore()
	first, _ := service(t, store.Driver(), busy(&left, api.Enter, 1))
	second, _ := service(t, store.Driver(), func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != api.Enter {
				next.ServeHTTP(w, r)
				return
			}
			dead.Add(1)
			_, _ = io.Copy(io.Discard, r.Body) // the client has sent it
			w.Header().Set("Content-Type", api.JSON)
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"code":"failed","outcome":"unsent","unreachable":true,"message":"the store is away"}`)
		})
	})
	d := open(t, first, second)
	left.Store(1)
	begin := time.Now()
	drive.Holds(t, d, drive.Claim("a", "x"))
	if took := time.Since(begin); took < time.Second || dead.Load() != 1 {
		t.Errorf("the busy host was asked again after %v, and the other %d times; want a second, and once", took, dead.Load())
	}
}

// A wait that a busy service refuses ends without news, so its caller enters again, which keeps the claim's place.
func TestBusyWait(t *testing.T) {
	t.Parallel()
	var left atomic.Int64
	store := memory.NewStore()
	first, _ := service(t, store.Driver(), busy(&left, api.Await, 1))
	d := open(t, first)
	holder, waiter := drive.Claim("a", "holder"), drive.Claim("a", "waiter")
	drive.Holds(t, d, holder)
	drive.Waits(t, d, waiter)
	left.Store(1000)
	p, err := d.Await(drive.Timely(t), waiter)
	if err != nil || p.Holds || left.Load() != 999 {
		t.Errorf("await = %+v, %v after %d requests; want no news after one", p, err, 1000-left.Load())
	}
	drive.Leave(t, d, holder)
	drive.Holds(t, d, waiter)
}
