// Handler serves payments of orders, one of each order at a time over all machines. Two machines serve here; while one is at
// work on order 42 the other answers 409 for that order, and serves others.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/stilehttp"
	_ "github.com/stilelock/stile/store/sqlite"
)

// serve is one machine.
func serve(locks *stile.Client, pay http.HandlerFunc) *httptest.Server {
	order := func(r *http.Request) *stile.Lock { return locks.Mutex("orders/" + r.PathValue("id")) }
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", stilehttp.Handler(order, pay, nil))
	return httptest.NewServer(mux)
}

func main() {
	ctx := context.Background()
	var machines [2]*httptest.Server
	post := func(machine, order int) {
		url := fmt.Sprintf("%s/orders/%d/pay", machines[machine].URL, order)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
		if err != nil {
			log.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			log.Fatal(err)
		}
		answer.Body.Close()
		fmt.Printf("machine %d, order %d: %s\n", machine, order, answer.Status)
	}
	for i := range machines {
		locks, err := stile.Open(ctx, "sqlite://"+filepath.Join(os.Args[1], "locks.db"), nil)
		if err != nil {
			log.Fatal(err)
		}
		defer locks.Close()
		machines[i] = serve(locks, func(w http.ResponseWriter, r *http.Request) {
			if i == 0 { // meanwhile
				post(1, 42)
				post(1, 43)
			}
			if err := stile.FromContext(r.Context()).Check(); err != nil {
				http.Error(w, "not now", http.StatusServiceUnavailable)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		})
		defer machines[i].Close()
	}
	post(0, 42)
	post(1, 42)
}
