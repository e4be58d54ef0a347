package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/servertest"
)

// watching begins a watch, and returns when it stands. The channel gets an event for calls of changed, at least for the
// latest.
func watching(t *testing.T, d *Driver, name string) <-chan struct{} {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	told, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- d.Watch(ctx, name, func() {
			select {
			case told <- struct{}{}:
			default:
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("watch = %v; want the context's error", err)
		}
	})
	select {
	case <-told:
	case <-timely(t).Done():
		t.Fatal("the watch does not stand")
	}
	return told
}

// comes waits for an event, and returns how long that took.
func comes(t *testing.T, told <-chan struct{}) time.Duration {
	t.Helper()
	start := time.Now()
	select {
	case <-told:
	case <-awake.For(time.Minute):
		t.Fatal("nothing was told for a minute")
	}
	return time.Since(start)
}

func quiet(t *testing.T, told <-chan struct{}, length time.Duration) {
	t.Helper()
	select {
	case <-told:
		t.Errorf("a change was told within %v in which there was none", length)
	case <-time.After(length):
	}
}

// The server reports a change by any client, and nothing else. A watch that polls would be late half of the time, and would
// not be quiet.
func TestWatchIsPushed(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	lane := awake.Lane(t)
	a, b := open(t, "redis://"+s.Addr), open(t, "redis://"+s.Addr)
	told := watching(t, b, "name")
	var took []time.Duration
	for range 20 {
		c := claim("name", "holder")
		enter(t, a, c)
		took = append(took, comes(t, told))
		leave(t, a, c)
		took = append(took, comes(t, told))
	}
	slices.Sort(took)
	lane.Within(took[len(took)/2], watchPoll/4, "a change is told at once, in the median,")
	enter(t, a, claim("another", "holder"))
	quiet(t, told, 4*watchPoll)
	// The change is made by hand, in one step: a watch that saw the string would end.
	s.Redis([]string{"EVAL", "redis.call('SET', KEYS[1], 'x') return redis.call('DEL', KEYS[1])", "1", b.key("name")})
	comes(t, told)
}

// Two watches of one client get the same change.
func TestWatchesOfOneClient(t *testing.T) {
	t.Parallel()
	d := open(t, "redis://"+servertest.Redis(t).Addr)
	one, two := watching(t, d, "name"), watching(t, d, "name")
	enter(t, d, claim("name", "holder"))
	comes(t, one)
	comes(t, two)
}

// A watch that has ended, and a waiter that gave up, leave nothing behind in the client.
func TestWhoeverWaitedLeavesNoSignal(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	watcher, waiter := open(t, "redis://"+s.Addr), openSetNX(t, "redis://"+s.Addr)
	s.Redis(foreignLock("held", "theirs"))
	for i := range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		if err := watcher.Watch(ctx, fmt.Sprint("name ", i), cancel); !errors.Is(err, context.Canceled) {
			t.Errorf("watch = %v; want the context's error", err)
		}
	}
	stays := watching(t, watcher, "name 0")
	if n := watcher.conn.Signals(); n != 1 {
		t.Errorf("%d keys have a signal after watches of 100; want 1, for the watch that goes on", n)
	}
	enter(t, open(t, "redis://"+s.Addr), claim("name 0", "holder"))
	comes(t, stays)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := waiter.Await(ctx, claim("held", "ours")); ended <- err }()
	servertest.Until(t, "it waits", func() bool { return waiter.conn.Signals() == 1 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("await = %v; want the context's error", err)
	}
	if n := waiter.conn.Signals(); n != 0 {
		t.Errorf("%d keys have a signal after the waiter's end; want none", n)
	}
}

// A lease that runs out changes no key while others keep it.
func TestWatchTellsOfExpiry(t *testing.T) {
	t.Parallel()
	d := open(t, "redis://"+servertest.Redis(t).Addr)
	holder, waiter := claim("name", "holder"), claim("name", "waiter")
	holder.TTL, waiter.Wait, waiter.TTL = 4*time.Second, time.Minute, time.Minute // it holds when the watch begins
	enter(t, d, holder)
	enter(t, d, waiter)
	told := watching(t, d, "name")
	servertest.Until(t, "the holder's end is told", func() bool {
		comes(t, told)
		list, err := d.List(timely(t), &driver.Query{Name: "name"})
		return err == nil && len(list) == 1 && len(list[0].Claims) == 1
	})
}

// A lost connection is made again, and the watch reports the changes meanwhile.
func TestWatchOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	told := watching(t, d, "name")
	killed := 0
	for line := range strings.Lines(s.Redis([]string{"CLIENT", "LIST"}).(string)) {
		id, rest, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
		_, flags, _ := strings.Cut(rest, " flags=")
		if flags, _, _ = strings.Cut(flags, " "); strings.Contains(flags, "t") { // it tracks changes
			s.Redis([]string{"CLIENT", "KILL", "ID", id})
			killed++
		}
	}
	if killed != 1 {
		t.Fatalf("%d connections were told of changes; want 1", killed)
	}
	comes(t, told)
	enter(t, open(t, "redis://"+s.Addr), claim("name", "holder"))
	comes(t, told)
}

// If the user may not track changes, a watch polls.
func TestWatchWithoutTracking(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	lane := awake.Lane(t)
	s.Redis([]string{"ACL", "SETUSER", "plain", "on", ">secret", "~*", "&*", "+@all", "-client|tracking"})
	d := open(t, "redis://plain:secret@"+s.Addr)
	told := watching(t, d, "name")
	for range 3 {
		lane.Within(comes(t, told), 5*time.Second, "the next look")
	}
}
