package stile_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/stilelock/stile"
	_ "github.com/stilelock/stile/store/memory"
)

// Work for a request must end with the request, and when the lease is lost. The lease's context does not end with the
// request, so that the lock can be released in order. The work gets a context that ends with either.
func ExampleLease_Context() {
	locks, err := stile.Open(context.Background(), "memory://", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	gone := errors.New("the client has gone")
	request, hangUp := context.WithCancelCause(context.Background())
	lease, err := locks.Mutex("order 7").Lock(request)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = lease.Unlock() }()

	work, cancel := context.WithCancelCause(lease.Context())
	defer cancel(nil)
	stop := context.AfterFunc(request, func() { cancel(context.Cause(request)) })
	defer stop()

	hangUp(gone)
	<-work.Done()
	fmt.Println(context.Cause(work))
	fmt.Println(lease.Context().Err())
	// Output:
	// the client has gone
	// <nil>
}
