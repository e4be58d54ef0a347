package guardtest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stilelock/stile/guard"
)

// Many lets many holders that do not wait for each other read a balance, add one and write it, each with a token of
// its own. Each that is not refused has added one, whatever the others did meanwhile.
func Many(t *testing.T, a Account, balance func() int) {
	t.Helper()
	const most = 120
	var (
		mu           sync.Mutex // guards what follows
		added, maybe int
		group        sync.WaitGroup
		tokens       = make(chan int64)
		before       = balance()
	)
	for range 4 {
		group.Go(func() {
			for token := range tokens {
				ok, err := addOne(a, token)
				mu.Lock()
				if ok {
					added++
				} else if err != nil {
					maybe++
					t.Logf("token %d: %v", token, err)
				}
				mu.Unlock()
			}
		})
	}
	for token := range most {
		tokens <- int64(token + 1)
	}
	close(tokens)
	group.Wait()
	if got := balance() - before; got < added || got > added+maybe {
		t.Errorf("the balance rose by %d; want %d for those that were not refused, and at most %d of unknown outcome more", got,
			added, maybe)
	}
	if added == 0 || maybe > most/4 {
		t.Errorf("%d were added and %d are of unknown outcome: that shows nothing", added, maybe)
	}
}

// addOne reports whether it has added one. With an error it may have; without, it was refused.
func addOne(a Account, token int64) (ok bool, err error) {
	balance, err := a.Read(context.Background(), token)
	if err == nil {
		err = a.Write(context.Background(), token, balance+1)
	}
	if errors.Is(err, guard.ErrStale) {
		return false, nil
	}
	return err == nil, err
}
