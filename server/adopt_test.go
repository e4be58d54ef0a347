package server_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/store/memory"
)

// An adopting store notifies only one driver of a turn. It has an answer for each claim, and counts the adopted claims.
type adopting struct {
	*fake
	adopted int
	answer  func(c *driver.Claim) (driver.Place, error)
}

func (a *adopting) Adopt(_ context.Context, c *driver.Claim) (driver.Place, error) {
	a.adopted++
	return a.answer(c)
}

// Trap: a store may notify only the driver by which a claim entered last. A wait that comes to another replica adopts the
// claim first. A wait at the same replica does not: an Adopt costs a request to the store.
func TestAdoption(t *testing.T) {
	store := memory.NewStore()
	var replicas []*adopting
	var urls []string
	for range 2 {
		a := &adopting{fake: newFake()}
		a.Driver = store.Driver()
		a.answer = func(c *driver.Claim) (driver.Place, error) { return driver.Place{Ticket: c.Ticket}, nil }
		_, url := start(t, a, nil)
		replicas, urls = append(replicas, a), append(urls, url)
	}
	place := func(url, text string) (a api.PlaceAnswer) {
		t.Helper()
		_, answer, err := post(t.Context(), url, text)
		if err != nil || json.Unmarshal(answer, &a) != nil || a.Place == nil || a.Replica == "" {
			t.Fatalf("%s, %v; want a place, and the replica", answer, err)
		}
		return a
	}
	place(urls[0]+api.Enter, body(t, &api.EnterRequest{Claim: claim("holder", 0)}))
	entered := place(urls[0]+api.Enter, body(t, &api.EnterRequest{Claim: claim("waiter", 0)}))
	await := func(at int, replica string) api.PlaceAnswer {
		t.Helper()
		return place(urls[at]+api.Await, body(t, &api.AwaitRequest{
			Claim: claim("waiter", entered.Place.Ticket), Within: time.Millisecond, Replica: replica,
		}))
	}
	if await(0, entered.Replica); replicas[0].adopted != 0 {
		t.Errorf("the replica by which a claim entered adopts it")
	}
	moved := await(1, entered.Replica)
	if replicas[1].adopted != 1 || moved.Replica == entered.Replica {
		t.Errorf("a claim was adopted %d times, and is told at %s; want once, and at another than %s", replicas[1].adopted, moved.Replica, entered.Replica)
	}
	if await(1, moved.Replica); replicas[1].adopted != 1 {
		t.Errorf("an adopted claim is adopted again")
	}
	if await(0, moved.Replica); replicas[0].adopted != 1 {
		t.Errorf("a claim that was adopted elsewhere is not adopted")
	}
	for what, tt := range map[string]struct {
		place driver.Place
		err   error
		holds bool
	}{
		"holds":   {driver.Place{Ticket: entered.Place.Ticket, Holds: true, TTL: time.Hour}, nil, true},
		"is gone": {driver.Place{}, driver.ErrGone, false},
	} {
		replicas[0].answer = func(*driver.Claim) (driver.Place, error) { return tt.place, tt.err }
		if got := await(0, moved.Replica); got.Place.Holds != tt.holds || got.Place.TTL != 0 {
			t.Errorf("await of a claim that %s when it is adopted = %+v; want at once, holds: %v, and no lease", what, got.Place, tt.holds)
		}
	}
}
