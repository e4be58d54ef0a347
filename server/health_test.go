package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/server"
)

// A listed is a store whose answers to List a test replaces.
type listed struct {
	*fake
	asked atomic.Int64
	list  func(context.Context) error
}

func (l *listed) List(ctx context.Context, _ *driver.Query) ([]driver.Listing, error) {
	l.asked.Add(1)
	return nil, l.list(ctx)
}

// probes asks a server for a path, and returns the status and the text.
func probes(t *testing.T, by *http.Client, method, path string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, inBubble+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := by.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// A replica is ready while its store answers, and alive in any case. Many questions are one question to the store.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &listed{fake: newFake()}
		by := connected(t, store)
		works := func(context.Context) error { return nil }
		hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		refuses := func(context.Context) error { return errors.New("no right to read on db1:5432") }
		for _, tt := range []struct {
			name  string
			store func(context.Context) error
			want  int
			after time.Duration // the most that the answer takes
		}{
			{"works", works, 200, 0}, {"hangs", hangs, 503, 2 * time.Second}, {"works again", works, 200, 0}, {"refuses", refuses, 503, 0},
		} {
			store.list = tt.store
			store.asked.Store(0)
			begin := time.Now()
			for range 5 {
				status, text := probes(t, by, "GET", "/readyz")
				if status != tt.want || (text == "ok\n") != (tt.want == 200) || strings.Contains(text, "db1") {
					t.Errorf("the store %s: /readyz = %d %s; want %d, and none of the store's words", tt.name, status, text, tt.want)
				}
			}
			if took := time.Since(begin); took > tt.after {
				t.Errorf("the store %s: /readyz took %v; want %v at most", tt.name, took, tt.after)
			}
			if n := store.asked.Load(); n != 1 {
				t.Errorf("the store %s: it was asked %d times; want once", tt.name, n)
			}
			if status, text := probes(t, by, "GET", "/healthz"); status != 200 || text != "ok\n" {
				t.Errorf("the store %s: /healthz = %d %s; want 200 ok", tt.name, status, text)
			}
			time.Sleep(time.Second)
		}
		if status, text := probes(t, by, "HEAD", "/healthz"); status != 200 || text != "" {
			t.Errorf("HEAD /healthz = %d %q; want 200 and no text", status, text)
		}
		if status, _ := probes(t, by, "POST", "/healthz"); status != 404 {
			t.Errorf("POST /healthz = %d; want 404", status)
		}
	})
}

// A server that ends is alive, but not ready: a balancer sends its clients to others.
func TestNotReadyAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, transport := serving(t, newFake())
		by := &http.Client{Transport: transport}
		if status, text := probes(t, by, "GET", "/readyz"); status != 200 {
			t.Fatalf("/readyz = %d %s", status, text)
		}
		s.EndWaits()
		if status, _ := probes(t, by, "GET", "/readyz"); status != 503 {
			t.Errorf("at the end /readyz = %d; want 503", status)
		}
		if status, _ := probes(t, by, "GET", "/healthz"); status != 200 {
			t.Errorf("at the end /healthz = %d; want 200", status)
		}
	})
}

// Whoever asks whether a server works needs no credentials, but the right Host.
func TestProbesNeedNoCredentials(t *testing.T) {
	url := guarded(t, newFake(), newDoor(map[string]server.Right{"p": {}}))
	for _, path := range []string{"/healthz", "/readyz"} {
		for host, want := range map[string]int{"": 200, "evil.example": 403} {
			r, err := http.NewRequestWithContext(t.Context(), "GET", url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != want {
				t.Errorf("GET %s of the Host %q = %d; want %d", path, host, res.StatusCode, want)
			}
		}
	}
}
