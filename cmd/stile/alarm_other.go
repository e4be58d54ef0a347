//go:build unix && !linux

package main

import (
	"time"

	"github.com/stilelock/stile/internal/boottime"
)

// An alarm goes off at a time of the machine's clock.
type alarm struct {
	C     <-chan struct{} // has an event when it goes off
	timer *time.Timer
}

func newAlarm() *alarm {
	c := make(chan struct{}, 1)
	a := &alarm{C: c}
	a.timer = time.AfterFunc(time.Hour, func() {
		select {
		case c <- struct{}{}:
		default:
		}
	})
	a.timer.Stop()
	return a
}

// set has the alarm go off then, and not at the time that was set before. A time that has passed is now.
func (a *alarm) set(at time.Duration) { a.timer.Reset(at - boottime.Now()) }
