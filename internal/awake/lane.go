package awake

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// most is the longest wait of a test for the lane. Then the test runs beside the holder of the lane, which may itself wait
// for others, such as a part of the test for which package testing has no room.
const most = time.Minute

// Lane gives a test whose subject is time the lane: one such test at a time runs on the machine. Lane waits for the test's
// turn, at most a minute. The turn ends with the test, or with its process. A test asks for the lane after t.Parallel and
// once its servers run, so that others wait only for the timed part, and before it has claims, which would run out. Another
// call in the same test, or in a test within it, returns the same turn.
func Lane(t testing.TB) *Turn {
	t.Helper()
	if u := inside.of(t); u != nil {
		return u
	}
	leave, err := enter(filepath.Join(os.TempDir(), "stile-lane.lock"), most)
	if err != nil {
		t.Fatal(err)
	}
	if leave != nil {
		t.Cleanup(leave)
	} else {
		t.Logf("another test has the lane for %v; this one runs beside it", most)
	}
	u := watch(t)
	inside.add(u)
	return u
}

// A Turn measures how late the timers of the process are while a test has the lane.
type Turn struct {
	t testing.TB
	*canary
}

// A canary notes when each of its steps ended.
type canary struct {
	began time.Time

	mu   sync.Mutex
	ends []time.Duration // since began
}

// inside has the turns of this process's tests, by their names.
var inside = turns{by: map[string]*Turn{}}

type turns struct {
	mu sync.Mutex // guards by
	by map[string]*Turn
}

// add remembers a turn until its test ends.
func (all *turns) add(u *Turn) {
	name := u.t.Name()
	all.mu.Lock()
	all.by[name] = u
	all.mu.Unlock()
	u.t.Cleanup(func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		delete(all.by, name)
	})
}

// of returns the turn of the test, or of a test that it is a part of; else nil.
func (all *turns) of(t testing.TB) *Turn {
	all.mu.Lock()
	defer all.mu.Unlock()
	for name := t.Name(); ; {
		if u := all.by[name]; u != nil {
			return &Turn{t, u.canary}
		}
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			return nil
		}
		name = name[:i]
	}
}

// watch measures how late timers are, until the test ends.
func watch(t testing.TB) *Turn {
	u := &Turn{t, &canary{began: time.Now()}}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for timer := time.NewTimer(step); ; timer.Reset(step) {
			select {
			case <-timer.C:
				u.mu.Lock()
				u.ends = append(u.ends, time.Since(u.began))
				u.mu.Unlock()
			case <-stop:
				timer.Stop()
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
	})
	return u
}

// Within fails the test if took exceeds the limit times the slowness of the machine. The slowness is how many times longer
// the steps of the limit took, at the slowest time since the turn began.
func (u *Turn) Within(took, limit time.Duration, what string, args ...any) {
	u.t.Helper()
	u.mu.Lock()
	slow := slowness(append([]time.Duration{0}, u.ends...), time.Since(u.began), limit)
	u.mu.Unlock()
	if allowed := time.Duration(float64(limit) * slow); took > allowed {
		u.t.Errorf("%s: it took %v; want at most %v, which is %v times %.2f, as late as timers were meanwhile",
			fmt.Sprintf(what, args...), took, allowed, limit, slow)
	}
}

// slowness returns the largest delay factor of a run of steps. A run has as many steps as make up length. The current step
// has lasted until now.
func slowness(ends []time.Duration, now, length time.Duration) float64 {
	ends = append(ends, max(now, ends[len(ends)-1]+step))
	n := min(int((length+step-1)/step), len(ends)-1)
	worst := 1.0
	for i := n; i < len(ends); i++ {
		worst = max(worst, float64(ends[i]-ends[i-n])/float64(time.Duration(n)*step))
	}
	return worst
}
