package guard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/store/memory"
)

// A shop serves its stock in the memory of a process: GET returns it, PUT sets it.
type shop struct {
	marks *guard.Memory // nil means no guard
	stock int
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	work := func() error {
		if r.Method == http.MethodPut {
			return json.NewDecoder(r.Body).Decode(&s.stock)
		}
		return json.NewEncoder(w).Encode(s.stock)
	}
	var err error
	if s.marks == nil {
		err = work()
	} else {
		// The token was raised before this handler ran. A newer one may have come since, so check and write in one step.
		resource, token := guard.Incoming(r.Context())
		err = s.marks.Do(resource, token, work)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
	}
}

// take takes one piece from the stock, by two requests under a lock. It is paused between them.
func take(ctx context.Context, locks *stile.Client, url string, pause func()) error {
	client := &http.Client{Transport: &guard.Transport{}} // sends the token of the context's lease
	return locks.Mutex("stock").Do(ctx, func(ctx context.Context) error {
		ctx = context.WithoutCancel(ctx) // as if the loss of the lock were noticed too late
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(r)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		var stock int
		if err := json.NewDecoder(response.Body).Decode(&stock); err != nil {
			return err
		}
		pause()
		r, err = http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(strconv.Itoa(stock-1)))
		if err != nil {
			return err
		}
		response, err = client.Do(r)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		return guard.ResponseError(response)
	})
}

// A client is paused while it holds the lock, until it loses the lock. Meanwhile another client takes a piece. Without a
// guard the same piece is sold twice.
func ExampleNewHandler() {
	ctx := context.Background()
	locks, err := stile.New(memory.New(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	marks := &guard.Memory{}
	plain, guarded := &shop{stock: 9}, &shop{stock: 9, marks: marks}
	for _, s := range []struct {
		name    string
		shop    *shop
		handler http.Handler
	}{
		{"without a guard", plain, plain},
		{"with a guard", guarded, guard.NewHandler(guarded, marks, nil)},
	} {
		server := httptest.NewServer(s.handler)
		sold := 0
		sell := func(pause func()) {
			if err := take(ctx, locks, server.URL+"/stock", pause); err == nil || s.shop.marks == nil {
				sold++
			}
		}
		sell(func() {
			// The pause: the lock is taken from the holder, as the store does when a lease has run out.
			if _, err := locks.Break(ctx, "stock", stile.BreakOptions{Head: true}); err != nil {
				log.Fatal(err)
			}
			sell(func() {})
		})
		server.Close()
		fmt.Printf("%s: sold %d of 9, left %d\n", s.name, sold, s.shop.stock)
	}
	// Output:
	// without a guard: sold 2 of 9, left 8
	// with a guard: sold 1 of 9, left 8
}
