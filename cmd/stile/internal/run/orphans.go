package run

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/stilelock/stile/cmd/stile/internal/proc"
)

// guards are the children that this process waits for.
var guards = struct {
	mu  sync.Mutex
	own map[int]bool
}{own: map[int]bool{}}

// AdoptOrphans reaps, until the returned function is called, the processes that this process's commands left running and
// that have ended since. Elsewhere the init process does that, but in a container this process may be the init process.
func AdoptOrphans() (stop func()) {
	if !proc.Adopts() {
		return func() {}
	}
	died, over, done := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(died, syscall.SIGCHLD)
	go func() {
		defer close(done)
		for {
			reapOrphans()
			select {
			case <-died:
			case <-over:
				return
			}
		}
	}()
	return func() {
		signal.Stop(died)
		close(over)
		<-done
	}
}

// reapOrphans reaps the ended children, except children that a goroutine waits for: until the goroutine has reaped them, no
// other process may get their numbers.
func reapOrphans() {
	guards.mu.Lock()
	defer guards.mu.Unlock()
	for _, pid := range proc.All() {
		if p, err := proc.StatOf(pid); err == nil && p.Ended && p.Parent == os.Getpid() && !guards.own[pid] {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // a child that has ended
		}
	}
}
