package consul

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// The waits of blocking queries, as Consul has them.
const (
	defaultWait = 5 * time.Minute
	maxWait     = 10 * time.Minute

	// shortWait is the wait without room. Consul's clients would take a refusal for the loss of their lock.
	shortWait = time.Second
)

// How often a blocking query checks its caller's credentials, and looks by itself.
const (
	lookAround = 5 * time.Second        // at names that it does not watch
	poll       = 250 * time.Millisecond // at the name that it watches, if the store cannot
)

// pace returns how often a query looks when nothing watches the name; "" for no name.
func pace(name string) time.Duration {
	if name == "" {
		return lookAround
	}
	return poll
}

// block answers a query that may wait: until the answer has another index than the client's, or the wait is over. Like
// Consul, it may answer earlier, with the same index. It watches one name; more says that the answer has other names too.
func (f *Front) block(
	ctx context.Context, q *Request, watched string, more bool, look func(Caller) (*Answer, error),
) (*Answer, error) {
	index, wait, err := q.patience()
	if err != nil {
		return nil, err
	}
	a, err := look(q.Caller)
	if err != nil || index == 0 || a.Index != index {
		return a, err
	}
	a.Sent() // it will not be
	waiting, cancel := f.bound(ctx, watched, wait)
	defer cancel()
	news, over := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(over)
		f.watch(waiting, watched, news)
	}()
	defer func() {
		cancel()
		<-over
	}()
	tick := time.NewTicker(lookAround)
	defer tick.Stop()
	ended := over
	for who := q.Caller; ; {
		looks := true
		select {
		case <-news:
		case <-ended: // nothing is watched
			ended, more = nil, true
			tick.Reset(pace(watched))
		case <-tick.C:
			looks = more
		case <-waiting.Done():
		}
		if who, err = who.Again(); err != nil {
			return nil, err
		}
		if !looks {
			continue
		}
		a, err = look(who)
		if err != nil || a.Index != index || waiting.Err() != nil {
			return a, err
		}
		a.Sent()
	}
}

// patience returns the index of a query, 0 if it does not wait, and how long it waits.
func (q *Request) patience() (index uint64, wait time.Duration, err error) {
	if index, err = q.number("index"); err != nil {
		return 0, 0, err
	}
	text := q.Query.Get("wait")
	if text == "" {
		return index, defaultWait, nil
	}
	if wait, err = time.ParseDuration(text); err != nil || wait < 0 {
		return 0, 0, refuse(http.StatusBadRequest, "wait is a duration, such as 10s")
	}
	return index, min(wait, maxWait), nil
}

// bound returns the context of a wait for a name. It ends early if there is no room for the wait, or if the replica ends.
func (f *Front) bound(ctx context.Context, name string, wait time.Duration) (waiting context.Context, cancel func()) {
	leave, ok := f.room(ctx, name)
	if !ok {
		leave, wait = func() {}, min(wait, shortWait)
	}
	waiting, end := context.WithTimeout(ctx, wait)
	stop := context.AfterFunc(f.ending, end)
	return waiting, sync.OnceFunc(func() {
		stop()
		end()
		leave()
	})
}

// watch reports changes of a name until ctx ends, or until it cannot.
func (f *Front) watch(ctx context.Context, name string, news chan<- struct{}) {
	if f.watcher == nil || name == "" {
		return
	}
	f.heed(f.watcher.Watch(ctx, name, func() {
		select {
		case news <- struct{}{}:
		default: // an earlier one is not read yet, and one look is enough for both
		}
	}))
}
