package conn

import (
	"context"
	"sync"
	"testing"
	"time"
)

// An asking context has its owner do something whenever it is asked whether it has ended.
type asking struct {
	context.Context
	does func()
}

func (a asking) Err() error { a.does(); return a.Context.Err() }

// A caller's context may do what its owner likes when it is asked, and a call over the same connections too.
func TestContextThatCalls(t *testing.T) {
	all := &flights{dialer: &dialer{ctx: t.Context()}, under: make(chan struct{}, mostCalls)}
	called := make(chan struct{}, 1)
	f, err := all.begin(asking{t.Context(), func() {
		own, err := all.begin(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		own.end()
		select {
		case called <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-called:
	case <-time.After(time.Minute):
		t.Fatal("the call that a context made did not end")
	}
	f.end()
}

// A call that began while the others were looked at does not end with one of them.
func TestCallBegunMeanwhile(t *testing.T) {
	all := &flights{dialer: &dialer{ctx: t.Context()}, under: make(chan struct{}, mostCalls), looking: true} // by this test
	over, end := context.WithCancel(t.Context())
	var first, second *flight
	begin := func(ctx context.Context) *flight {
		f, err := all.begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first = begin(asking{over, func() {
		if second == nil {
			end()
			first.end()
			second = begin(t.Context())
		}
	}})
	all.look()
	if err := second.Err(); err != nil {
		t.Errorf("the call that began meanwhile ended: %v", err)
	}
	second.end()
}

// A context that takes long to say whether it has ended keeps no call from its end, be it one that its owner makes meanwhile.
func TestContextThatIsAskedForLong(t *testing.T) {
	all := &flights{dialer: &dialer{ctx: t.Context()}, under: make(chan struct{}, mostCalls)}
	begin := func(ctx context.Context) *flight {
		f, err := all.begin(ctx)
		if err != nil {
			t.Error(err)
		}
		return f
	}
	ended, release := make(chan struct{}), make(chan struct{})
	busy := sync.OnceFunc(func() {
		over, end := context.WithCancel(t.Context())
		end()
		own := begin(over)
		<-own.Done()
		own.end()
		close(ended)
		<-release
	})
	brief, cancel := context.WithTimeout(t.Context(), grace) // nobody says whether that has ended
	defer cancel()
	f := begin(asking{brief, busy})
	for what, done := range map[string]<-chan struct{}{"by the owner": ended, "with the context": f.Done()} {
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatalf("the call %s does not end", what)
		}
	}
	close(release)
	f.end()
}
