package drivertest

import (
	"time"

	"github.com/stilelock/stile/driver/drivertest/internal/judge"
)

// met counts the events that the answers of a history show.
func (c *crowd) met(h *judge.History) {
	c.mu.Lock() // the other crowd looks at them meanwhile
	defer c.mu.Unlock()
	for _, what := range h.Met(c.brief) {
		c.hits[what]++
	}
}

// wanted returns the events that a run must show.
func (c *crowd) wanted() []string {
	list := []string{requestLost, answerLost, requestLate, requestPast, judge.MetKeep, judge.MetReclaim}
	if c.brief < time.Second { // with longer leases, most rounds end before a lease does
		list = append(list, judge.MetLapse)
	}
	if _, whole := c.clients[0].Driver.(*lateDriver); whole {
		list = append(list, requestTwice)
	}
	if c.breaker != nil {
		list = append(list, judge.MetBreak)
	}
	return list
}
