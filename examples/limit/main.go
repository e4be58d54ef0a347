// Limit calls a vendor's API from three machines, which may have two requests under way together. The vendor counts.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/stilehttp"
	_ "github.com/stilelock/stile/store/sqlite"
)

// A vendor refuses more than two requests at a time.
type vendor struct {
	mu           sync.Mutex
	now, refused int
}

func (v *vendor) count(n int) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.now += n; v.now > 2 {
		v.refused++
	}
	return v.now
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	defer v.count(-1)
	if v.count(1) > 2 {
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	fmt.Fprint(w, "1.08")
}

func main() {
	ctx, dir := context.Background(), os.Args[1]
	api := &vendor{}
	server := httptest.NewServer(api)
	defer server.Close()
	var mu sync.Mutex
	answers := map[string]int{}
	var calls sync.WaitGroup
	for range 3 {
		locks, err := stile.Open(ctx, "sqlite://"+filepath.Join(dir, "locks.db"), nil)
		if err != nil {
			log.Fatal(err)
		}
		defer locks.Close()
		client := &http.Client{Transport: &stilehttp.Transport{Permit: locks.Permit("vendor", 1, 2)}}
		for range 10 {
			calls.Go(func() {
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
				if err != nil {
					log.Fatal(err)
				}
				answer, err := client.Do(request)
				if err != nil {
					log.Fatal(err)
				}
				defer answer.Body.Close()
				text, err := io.ReadAll(answer.Body)
				if err != nil {
					log.Fatal(err)
				}
				mu.Lock()
				defer mu.Unlock()
				answers[answer.Status+" "+string(text)]++
			})
		}
	}
	calls.Wait()
	fmt.Println(answers, "refused:", api.refused)
}
