package inbox

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A subscriber needs its subscriptions until it is told otherwise, and notes its calls.
type subscriber struct {
	mu    sync.Mutex // guards what follows
	needs bool
	asked int
	heard []string
}

func (k *subscriber) Needs(channel string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	return k.needs
}

// times returns how often the subscriber was asked.
func (k *subscriber) times() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked
}

// lets makes the subscriber need no subscription any more.
func (k *subscriber) lets() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.needs = false
}

func (k *subscriber) said() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.heard)
}

func (k *subscriber) Subscribed(channel string)     { k.hear(channel + " stands") }
func (k *subscriber) Received(channel, text string) { k.hear(channel + ": " + text) }

func (k *subscriber) hear(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.heard = append(k.heard, what)
}

// keeping is begin with a subscriber.
func keeping(t *testing.T) (*store, *Set, *subscriber) {
	t.Helper()
	s, inboxes := begin(t)
	k := &subscriber{needs: true}
	inboxes.Subscriber = k
	return s, inboxes, k
}

// A subscription on which nobody waits goes on while the subscriber needs it. The subscriber is asked now and then, and
// never while a claim waits.
func TestSubscriberNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, inboxes, k := keeping(t)
		inboxes.Within("channel", 0)
		time.Sleep(5*inboxes.Idle + inboxes.Idle/2)
		if s.now.Load() != 1 || k.times() != 5 {
			t.Errorf("%d subscriptions, and the subscriber was asked %d times in five times Idle; want 1, and 5 times", s.now.Load(), k.times())
		}
		if !inboxes.Expect("channel", "a") {
			t.Error("a claim is not expected although the subscription stands")
		}
		k.lets()
		time.Sleep(3 * inboxes.Idle)
		if s.now.Load() != 1 || k.times() != 5 {
			t.Errorf("%d subscriptions, and the subscriber was asked %d times more while a claim waits; want 1, and none", s.now.Load(), k.times()-5)
		}
		inboxes.Forget("channel", "a")
		time.Sleep(2 * inboxes.Idle)
		synctest.Wait()
		if s.now.Load() != 0 || s.begun.Load() != 1 || k.times() != 6 {
			t.Errorf("%d subscriptions of %d, and the subscriber was asked %d times more; want none of 1, and once",
				s.now.Load(), s.begun.Load(), k.times()-5)
		}
		inboxes.Within("channel", 0)
		synctest.Wait()
		if s.now.Load() != 1 {
			t.Error("no subscription begins anew")
		}
	})
}

// The subscriber learns each time that the subscription stands, and gets the messages that are for no claim.
func TestSubscriberReceives(t *testing.T) {
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
			t.Errorf("the subscriber is told %q; want %q", k.said(), want)
		}
	})
}

// A store that refuses a subscription is asked seldom for one that only the subscriber needs, and as often as ever while a
// claim waits.
func TestSubscriberAsksSeldom(t *testing.T) {
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
