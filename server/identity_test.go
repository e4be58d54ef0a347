package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
)

// An identified store has an id that a test sets, and counts the reads of it.
type identified struct {
	*fake
	id    string
	err   error
	reads atomic.Int64
}

func (i *identified) Identity(ctx context.Context) (string, error) {
	i.reads.Add(1)
	if ctx.Err() != nil {
		return "", driver.Ended(ctx, true)
	}
	return i.id, i.err
}

// enters sends an Enter that is meant for a store, and returns the error of the answer.
func enters(t *testing.T, by *http.Client, store string) error {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, inBubble+api.Enter, strings.NewReader(body(t, &api.EnterRequest{Claim: claim("x", 0)})))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", api.JSON)
	r.Header.Set(api.StoreID, store)
	res, err := by.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var a struct {
		api.Error
		Place *api.Place `json:"place"`
	}
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil || (a.Place == nil) != (a.Status() == res.StatusCode) {
		t.Fatalf("%s, %v, %+v; want a place, or an error with its status", res.Status, err, a)
	}
	if a.Place != nil {
		return nil
	}
	return a.Err()
}

// identifiedStore returns a store whose id is A. What enters holds, and is counted.
func identifiedStore() (store *identified, entered *int) {
	store, entered = &identified{fake: newFake(), id: "A"}, new(int)
	store.enter = func(context.Context, *driver.Claim) (driver.Place, error) {
		*entered++
		return driver.Place{Ticket: 1, Holds: true, TTL: time.Hour}, nil
	}
	return store, entered
}

// A request for another store is refused before the store of the server is asked. The store has the last word, not what the
// server remembers.
func TestRequestsForAnotherStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, entered := identifiedStore()
		by := connected(t, store)
		if err := enters(t, by, "A"); err != nil {
			t.Errorf("enter = %v; want nil", err)
		}
		if err := enters(t, by, "B"); !errors.Is(err, api.ErrOtherStore) || driver.OutcomeOf(err) != driver.OutcomeRefused || *entered != 1 {
			t.Errorf("enter for another store = %v, and %d entered; want ErrOtherStore, refused, and 1", err, *entered)
		}
		time.Sleep(time.Millisecond)
		store.id = "B"
		if err := enters(t, by, "B"); err != nil {
			t.Errorf("enter after the store has changed = %v; want nil", err)
		}
		_, answer, err := postBy(t.Context(), by, inBubble+api.Identity, "{}")
		var a api.IdentityAnswer
		if err != nil || json.Unmarshal(answer, &a) != nil || a.Identity != "B" || !slices.Equal(a.Former, []string{"A"}) {
			t.Errorf("the identity is %s, %v; want B, and A before", answer, err)
		}
		store.err = driver.ErrUnsupported
		time.Sleep(time.Minute)
		if err := enters(t, by, "B"); !errors.Is(err, api.ErrOtherStore) {
			t.Errorf("enter at a store without an id = %v; want ErrOtherStore", err)
		}
	})
}

// The id is read once for all requests of 10 s, and again after the store did not answer.
func TestIdentityIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := identifiedStore()
		by := connected(t, store)
		reads := func(what string, want int64) {
			t.Helper()
			all := make(chan error, 20)
			for range cap(all) {
				go func() { all <- enters(t, by, "A") }()
			}
			for range cap(all) {
				if err := <-all; err != nil {
					t.Errorf("%s, enter = %v; want nil", what, err)
				}
			}
			if n := store.reads.Swap(0); n != want {
				t.Errorf("%s, the id was read %d times; want %d", what, n, want)
			}
		}
		reads("at first", 1)
		time.Sleep(9 * time.Second)
		reads("within 10 s", 0)
		time.Sleep(2 * time.Second)
		reads("after 10 s", 1)
		works := store.enter
		store.enter = func(context.Context, *driver.Claim) (driver.Place, error) {
			return driver.Place{}, driver.Unreachable(errors.New("no"))
		}
		if err := enters(t, by, "A"); !driver.IsUnreachable(err) {
			t.Errorf("enter at a store that does not answer = %v", err)
		}
		store.enter = works
		time.Sleep(time.Millisecond)
		reads("after the store did not answer", 1)
	})
}

// While the id cannot be read, nothing enters. The store has not judged the claim.
func TestIdentityCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, entered := identifiedStore()
		by := connected(t, store)
		for _, fails := range []error{driver.Unreachable(errors.New("no")), driver.ErrForeign} {
			store.err = fails
			err := enters(t, by, "A")
			if driver.OutcomeOf(err) != driver.OutcomeUnsent || driver.IsUnreachable(err) != driver.IsUnreachable(fails) || *entered != 0 {
				t.Errorf("enter while the id = %v: %v, and %d entered; want it unsent, and none", fails, err, *entered)
			}
		}
		store.err = nil
		if err := enters(t, by, "A"); err != nil {
			t.Errorf("enter once the id can be read = %v; want nil", err)
		}
	})
}
