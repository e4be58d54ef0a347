//go:build unix

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestBalancer checks that a balancer uses each server, that a fault hits some requests and spares others, and which of the
// requests it passes on.
func TestBalancer(t *testing.T) {
	const all, text = 200, `{"left":true}`
	var arrived [2]atomic.Int64
	var addrs []string
	for i := range arrived {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if body, err := io.ReadAll(r.Body); err != nil || string(body) != text {
				t.Errorf("the request is %q, %v", body, err)
			}
			arrived[i].Add(1)
			_, _ = io.WriteString(w, text) // the balancer may have gone
		}))
		defer web.Close()
		addrs = append(addrs, web.Listener.Addr().String())
	}
	b := newBalancer(t, addrs)
	for _, tt := range []struct {
		kind, hit string
		passes    bool // each request reaches a server
	}{
		{"", "", true},
		{answer502, "502 page", false},
		{answer504, "504 page", true},
		{breakAnswers, "200 broken", true},
	} {
		b.kind.Store(tt.kind)
		got := map[string]int{}
		for i := range arrived {
			arrived[i].Store(0)
		}
		for range all {
			got[answerOf(t, b.addr, text)]++
		}
		b.late.Wait()
		one, two := arrived[0].Load(), arrived[1].Load()
		if tt.hit != "" && (got[tt.hit] == 0 || got["200 whole"] == 0) || got[tt.hit]+got["200 whole"] != all {
			t.Errorf("%q: the answers are %v", tt.kind, got)
		}
		if sum := int(one + two); one == 0 || two == 0 || tt.passes != (sum == all) || sum <= got["200 whole"] && !tt.passes {
			t.Errorf("%q: the servers got %d and %d of %d requests, and %v are the answers", tt.kind, one, two, all, got)
		}
	}
}

// answerOf returns the kind of the answer to a request.
func answerOf(t *testing.T, addr, text string) string {
	t.Helper()
	a, err := http.Post("http://"+addr+"/v1/leave", "application/json", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	status := a.Status[:4]
	switch {
	case err != nil && strings.HasPrefix(text, string(body)) && len(body) > 0:
		return status + "broken"
	case err == nil && string(body) == text:
		return status + "whole"
	case err == nil && strings.HasPrefix(string(body), "<html>") && a.Header.Get("Content-Type") == "text/html":
		return status + "page"
	}
	t.Fatalf("the answer is %s: %q, %v", a.Status, body, err)
	return ""
}
