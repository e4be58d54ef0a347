package inbox

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A keeper keeps subscriptions while it wants to, and notes what it is told.
type keeper struct {
	mu    sync.Mutex // guards what follows
	keeps bool
	asked int
	heard []string
}

func (k *keeper) Keeps(channel string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	return k.keeps
}

// times returns how often the keeper was asked.
func (k *keeper) times() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked
}

// lets has the keeper want no subscription any more.
func (k *keeper) lets() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keeps = false
}

func (k *keeper) said() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.heard)
}

func (k *keeper) Stands(channel string)     { k.hear(channel + " stands") }
func (k *keeper) Told(channel, text string) { k.hear(channel + ": " + text) }

func (k *keeper) hear(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.heard = append(k.heard, what)
}

// keeping is begin with a keeper.
func keeping(t *testing.T) (*store, *Set, *keeper) {
	t.Helper()
	s, inboxes := begin(t)
	k := &keeper{keeps: true}
	inboxes.Keeper = k
	return s, inboxes, k
}

// A subscription on which nobody waits goes on while the keeper needs it. The keeper is asked now and then, and never while a claim
// waits.
func TestKeeperKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, inboxes, k := keeping(t)
		inboxes.Within("channel", 0)
		time.Sleep(5*inboxes.Idle + inboxes.Idle/2)
		if s.now.Load() != 1 || k.times() != 5 {
			t.Errorf("%d subscriptions, and the keeper was asked %d times in five times Idle; want 1, and 5 times", s.now.Load(), k.times())
		}
		if !inboxes.Expect("channel", "a") {
			t.Error("a claim is not expected although the subscription stands")
		}
		k.lets()
		time.Sleep(3 * inboxes.Idle)
		if s.now.Load() != 1 || k.times() != 5 {
			t.Errorf("%d subscriptions, and the keeper was asked %d times more while a claim waits; want 1, and none", s.now.Load(), k.times()-5)
		}
		inboxes.Forget("channel", "a")
		time.Sleep(2 * inboxes.Idle)
		synctest.Wait()
		if s.now.Load() != 0 || s.begun.Load() != 1 || k.times() != 6 {
			t.Errorf("%d subscriptions of %d, and the keeper was asked %d times more; want none of 1, and once",
				s.now.Load(), s.begun.Load(), k.times()-5)
		}
		inboxes.Within("channel", 0)
		synctest.Wait()
		if s.now.Load() != 1 {
			t.Error("no subscription begins anew")
		}
	})
}

// The keeper is told of each time that the subscription begins to stand, and of the messages that say nothing to a claim.
func TestKeeperIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, inboxes, k := keeping(t)
		listening(t, inboxes, "a")
		for _, m := range []string{"broken x", "7 a", "8 of another claim", ""} {
			s.messages <- m
		}
		s.lost <- struct{}{}
		time.Sleep(time.Second)
		s.messages <- "again"
		synctest.Wait()
		want := []string{"channel stands", "channel: broken x", "channel: ", "channel stands", "channel: again"}
		if !slices.Equal(k.said(), want) {
			t.Errorf("the keeper is told %q; want %q", k.said(), want)
		}
	})
}

// A store that refuses a subscription is asked seldom for one that only the keeper needs, and as often as ever while a claim waits.
func TestKeeperAsksSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, inboxes, _ := keeping(t)
		s.refuses = true
		inboxes.Within("channel", 0)
		time.Sleep(time.Minute) // until the pauses are as long as they get
		before := s.begun.Load()
		time.Sleep(100 * retryIdle)
		if n := s.begun.Load() - before; n < 95 || n > 205 {
			t.Errorf("%d attempts in 100 times %v; want one for each, or for each half", n, retryIdle)
		}
		before = s.begun.Load()
		for start := time.Now(); time.Since(start) < 100*retryMax; {
			if p, err := inboxes.Await(t.Context(), "channel", "a", 0); p.Holds || err != nil {
				t.Fatalf("await = %+v, %v; want an early return", p, err)
			}
		}
		if n := s.begun.Load() - before; n < 90 || n > 205 {
			t.Errorf("%d attempts in 100 times %v while a claim waits; want one for each, or for each half", n, retryMax)
		}
	})
}
