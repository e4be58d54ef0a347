package stilehttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/stilelock/stile"
)

// A Transport is an [http.RoundTripper] whose requests each hold a permit, so that all machines together have no more
// requests under way than the permit's name has permits. Many goroutines may use it.
//
// A request holds its permit until its answer's body is read to the end or closed, and ends if the permit is lost.
type Transport struct {
	// Permit is the lock that a request takes, such as Client.Permit("vendor", 1, 5).
	Permit *stile.Lock

	// Base makes the requests. Nil means [http.DefaultTransport].
	Base http.RoundTripper

	// Wait is the longest time that a request waits for its permit before it fails with [stile.ErrHeld]. 0 means until the
	// request's context ends.
	Wait time.Duration

	// AtLeast keeps a permit for this time after it was taken, to limit the calls in a second. 0 means that it is released
	// with the answer.
	AtLeast time.Duration
}

// RoundTrip waits for a permit, makes the request, and releases the permit with the answer's body. Without a permit it does
// not send the request, and the error says why.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	lease, err := t.take(r.Context())
	if err != nil {
		if r.Body != nil {
			err = errors.Join(err, r.Body.Close()) // as a RoundTripper must in any case
		}
		return nil, err
	}
	begin := time.Now()
	ctx, cancel := within(r.Context(), lease)
	over := sync.OnceFunc(func() {
		cancel()
		_ = lease.UnlockAfter(t.AtLeast - time.Since(begin)) // the answer is there, whatever the outcome for the permit
	})
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	returned := false
	defer func() {
		if !returned { // it fails or panics: nobody will read or close an answer
			over()
		}
	}()
	answer, err := base.RoundTrip(r.WithContext(ctx))
	if err != nil {
		if lost := lease.Check(); errors.Is(lost, stile.ErrLost) {
			err = errors.Join(lost, err)
		}
		return nil, err
	}
	if answer == nil || answer.Body == nil { // nothing will be read or closed: the permit is released now
		return answer, nil
	}
	returned = true
	answer.Body = held(answer.Body, over)
	return answer, nil
}

func (t *Transport) take(ctx context.Context) (*stile.Lease, error) {
	if t.Wait > 0 {
		return t.Permit.LockWithin(ctx, t.Wait)
	}
	return t.Permit.Lock(ctx)
}

// within returns a context that ends with ctx or the lease, and carries the lease.
func within(ctx context.Context, lease *stile.Lease) (context.Context, func()) {
	both, cancel := context.WithCancelCause(lease.Context())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return both, func() { stop(); cancel(nil) }
}

// held returns a body that ends the hold on a permit. A writable body, as after a switch of protocols, stays writable.
func held(body io.ReadCloser, over func()) io.ReadCloser {
	if w, ok := body.(io.Writer); ok {
		return struct {
			*heldBody
			io.Writer
		}{&heldBody{body, over}, w}
	}
	return &heldBody{body, over}
}

type heldBody struct {
	io.ReadCloser
	over func()
}

func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.over()
	}
	return n, err
}

func (b *heldBody) Close() error {
	defer b.over()
	return b.ReadCloser.Close()
}
