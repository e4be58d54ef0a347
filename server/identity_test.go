package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
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
	id      string
	err     error
	reading func(context.Context) (string, error) // unless nil, reads the id
	reads   atomic.Int64
}

func (i *identified) Identity(ctx context.Context) (string, error) {
	i.reads.Add(1)
	if i.reading != nil {
		return i.reading(ctx)
	}
	if ctx.Err() != nil {
		return "", driver.Ended(ctx, true)
	}
	return i.id, i.err
}

// send sends a request that is meant for a store, and returns the answer.
func send(ctx context.Context, t *testing.T, by *http.Client, path, store string, q any) ([]byte, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, inBubble+path, strings.NewReader(body(t, q)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", api.JSON)
	r.Header.Set(api.StoreID, store)
	res, err := by.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if e, ok := api.ReadError(answer); err == nil && ok != (res.StatusCode != http.StatusOK) || ok && e.Status() != res.StatusCode {
		t.Errorf("%s, %s; want an error with its status, or none", res.Status, answer)
	}
	return answer, err
}

// enters sends an Enter that is meant for a store, and returns the error of the answer.
func enters(t *testing.T, by *http.Client, store string) error {
	t.Helper()
	answer, err := send(t.Context(), t, by, api.Enter, store, &api.EnterRequest{Claim: claim("x", 0)})
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := api.ReadError(answer); ok {
		return e.Err()
	}
	return nil
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
		before := store.reads.Load()
		for range 20 {
			if err := enters(t, by, "C"); !errors.Is(err, api.ErrOtherStore) {
				t.Errorf("enter for another store = %v; want ErrOtherStore", err)
			}
		}
		if n := store.reads.Load() - before; n > 0 {
			t.Errorf("20 requests for another store read the id %d times; want none, since it was read just now", n)
		}
		time.Sleep(101 * time.Millisecond)
		store.id = "B"
		if err := enters(t, by, "B"); err != nil {
			t.Errorf("enter after the store has changed = %v; want nil", err)
		}
		_, answer, err := postBy(t.Context(), by, inBubble+api.Identity, "{}")
		var a api.IdentityAnswer
		if err != nil || json.Unmarshal(answer, &a) != nil || a.Identity != "B" {
			t.Errorf("the identity is %s, %v; want B", answer, err)
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

// hangs is a read of the id that ends with its request.
func hangs(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", driver.Ended(ctx, true)
}

// Trap: the server notices that a client is gone only once it has read the body. A read of the id that hangs must end with
// its request, and keep other requests waiting for a moment only: they may read it by another connection.
func TestReadOfTheIdentityHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, entered := identifiedStore()
		began, ended := make(chan struct{}), make(chan struct{})
		store.reading = func(ctx context.Context) (string, error) {
			store.reading = nil
			close(began)
			defer close(ended)
			return hangs(ctx)
		}
		by := connected(t, store)
		gone, leave := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() {
			_, err := send(gone, t, by, api.Enter, "A", &api.EnterRequest{Claim: claim("x", 0)})
			first <- err
		}()
		<-began
		begun := time.Now()
		patient, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := send(patient, t, by, api.Enter, "A", &api.EnterRequest{Claim: claim("y", 0)}); err != nil || time.Since(begun) > time.Second {
			t.Errorf("enter beside a read of the id that hangs = %v after %v; want nil within 1 s", err, time.Since(begun))
		}
		leave()
		if err := <-first; err == nil {
			t.Error("a request that was given up got an answer")
		}
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("the read of the id goes on a minute after its client is gone")
		}
		if *entered != 1 {
			t.Errorf("%d claims entered; want the one whose client waited", *entered)
		}
	})
}

// Trap: the id may be unreadable where the claims are not, for example on another server of a Redis Cluster. A holder must not
// lose its lease for that. But only the store of the id may say that a claim is gone.
func TestRenewalWithoutTheIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := identifiedStore()
		store.enter = nil
		by := connected(t, store)
		if err := enters(t, by, "A"); err != nil {
			t.Fatal(err)
		}
		renew := func(store, id string) error {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			answer, err := send(ctx, t, by, api.Renew, store, &api.RenewRequest{Claims: []api.Claim{claim(id, 0)}})
			if err != nil {
				return err
			}
			if e, ok := api.ReadError(answer); ok {
				return e.Err()
			}
			var a api.RenewAnswer
			if err := json.Unmarshal(answer, &a); err != nil || len(a.Renewals) != 1 {
				t.Fatalf("the answer is %s, %v", answer, err)
			}
			return a.Renewals[0].Driver().Err
		}
		for what, read := range map[string]func(context.Context) (string, error){
			"fails": func(context.Context) (string, error) { return "", driver.Unreachable(errors.New("no")) },
			"hangs": hangs,
		} {
			time.Sleep(time.Minute)
			synctest.Wait() // for the end of what the service does for a client that has gone
			store.reading = read
			if err := renew("A", "x"); err != nil {
				t.Errorf("renewal while the read of the id %s = %v; want nil", what, err)
			}
			if err := renew("A", "gone"); err == nil || errors.Is(err, driver.ErrGone) {
				t.Errorf("renewal of a missing claim while the read of the id %s = %v; want no verdict", what, err)
			}
			if err := renew("B", "x"); err == nil {
				t.Errorf("renewal for another store while the read of the id %s = nil", what)
			}
		}
		synctest.Wait()
		store.reading = nil
		if err := renew("A", "gone"); !errors.Is(err, driver.ErrGone) {
			t.Errorf("renewal of a missing claim = %v; want ErrGone", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		store.id = "B"
		if err := renew("A", "gone"); !errors.Is(err, api.ErrOtherStore) {
			t.Errorf("renewal of a missing claim at another store = %v; want ErrOtherStore", err)
		}
	})
}

// Trap: an Enter waits for an earlier one of its claim, and meanwhile another store takes the place of the first.
func TestStoreChangesBeforeATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, entered := identifiedStore()
		works, fail := store.enter, make(chan struct{})
		store.enter = func(context.Context, *driver.Claim) (driver.Place, error) {
			store.enter = works
			<-fail
			store.id = "B"
			return driver.Place{}, driver.Unreachable(errors.New("no"))
		}
		by := connected(t, store)
		all := make(chan error, 2)
		for range cap(all) {
			go func() { all <- enters(t, by, "A") }()
			synctest.Wait()
		}
		time.Sleep(time.Millisecond)
		close(fail)
		one, two := <-all, <-all
		if other := errors.Is(one, api.ErrOtherStore) || errors.Is(two, api.ErrOtherStore); !other || *entered != 0 {
			t.Errorf("enter = %v and %v, and %d entered; want ErrOtherStore, and none", one, two, *entered)
		}
	})
}
