//go:build unix && !linux

package guard

import (
	"time"

	"github.com/stilelock/stile/internal/boottime"
)

// An Alarm goes off at a time of the machine's clock.
type Alarm struct {
	C     <-chan struct{} // has an event when it goes off
	timer *time.Timer
}

// NewAlarm returns an alarm that is not set. The error is nil.
func NewAlarm() (*Alarm, error) {
	c := make(chan struct{}, 1)
	a := &Alarm{C: c}
	a.timer = time.AfterFunc(time.Hour, func() {
		select {
		case c <- struct{}{}:
		default:
		}
	})
	a.timer.Stop()
	return a, nil
}

// Set sets the alarm, in place of an earlier time. For a time that has passed it goes off now.
func (a *Alarm) Set(at time.Duration) { a.timer.Reset(at - boottime.Now()) }

// Close stops the alarm: it does not go off any more. Closing it twice is harmless.
func (a *Alarm) Close() { a.timer.Stop() }
