package server_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
)

// An Enter may arrive at a frozen server after its client has released the claim by another. The client then looks for its remains
// with the ticket that it knows. Some stores, such as etcd, find a claim by no other ticket than its own.
func TestRemainsOfLateEnter(t *testing.T) {
	f := newFake()
	_, url := start(t, f, nil)
	late := claim("x", 0)
	if status, text, err := post(t.Context(), url+api.Enter, body(t, &api.EnterRequest{Claim: late})); status != http.StatusOK {
		t.Fatal(string(text), err)
	}
	f.leave = func(l *driver.Release) error {
		if <-f.left; l.Claim.Ticket != 0 {
			return driver.ErrGone
		}
		return f.Driver.Leave(context.Background(), l)
	}
	late.Ticket = 1
	if status, text, err := post(t.Context(), url+api.Leave, body(t, &api.LeaveRequest{Claim: late})); status != http.StatusGone {
		t.Errorf("leave = %d %s, %v; want that the claim is gone", status, text, err)
	}
	if list, err := f.List(t.Context(), &driver.Query{Name: "a"}); err != nil || len(list) > 0 {
		t.Errorf("the queue is %+v, %v; want it empty", list, err)
	}
}
