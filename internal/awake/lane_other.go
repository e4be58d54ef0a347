//go:build !unix

package awake

import (
	"sync"
	"time"
)

var lane sync.Mutex

// enter waits for the lock of this process: on this system the lane does not cover the machine.
func enter(_ string, most time.Duration) (leave func(), err error) {
	again := time.NewTicker(step)
	defer again.Stop()
	for over := For(most); !Over(over); <-again.C {
		if lane.TryLock() {
			return lane.Unlock, nil
		}
	}
	return nil, nil
}
