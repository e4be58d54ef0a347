package remote

import (
	"context"
	"net"
	"time"

	"github.com/stilelock/stile/driver"
)

// SetSilence sets the time after which a silent watch counts as dead, for a driver that can list, watch and break.
func SetSilence(d driver.Driver, silence time.Duration) {
	d.(interface{ base() *client }).base().silence = silence
}

// SetMostList sets the most bytes of a list, for such a driver.
func SetMostList(d driver.Driver, bytes int64) {
	d.(interface{ base() *client }).base().mostList = bytes
}

// SetMissingAgain says after which time hosts that gave no id yet are asked again, of such a driver.
func SetMissingAgain(d driver.Driver, again time.Duration) {
	d.(interface{ base() *client }).base().stores.again = again
}

// SetPatience sets how long calls wait for a batch to the first host, for such a driver.
func SetPatience(d driver.Driver, patience time.Duration) {
	g := gathererOf(d)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.patience = patience
}

// Slow is the least silence that counts.
const Slow = slow

// SetStore sets the id of the store for which such a driver's requests are meant.
func SetStore(d driver.Driver, id string) {
	c := d.(interface{ base() *client }).base()
	c.stores.mu.Lock()
	defer c.stores.mu.Unlock()
	c.stores.id = id
}

// Idle reports whether no request is under way to the first host that later calls would wait for, of such a driver.
func Idle(d driver.Driver) bool {
	g := gathererOf(d)
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last == nil
}

// Queued returns how many calls wait for a batch to the first host, of such a driver.
func Queued(d driver.Driver) int {
	g := gathererOf(d)
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.queue)
}

var jam = &item{}

// Jam lets all further calls to the first host wait until Unjam, or for the patience, for such a driver.
func Jam(d driver.Driver) {
	g := gathererOf(d)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last, g.begun = jam, time.Now()
}

// Unjam sends the calls that wait since Jam.
func Unjam(d driver.Driver) {
	g := gathererOf(d)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = nil
	g.nextLocked()
}

// SetDial sets a function that such a driver calls before it dials an address from now on.
func SetDial(d driver.Driver, before func(addr string)) {
	t := d.(interface{ base() *client }).base().transport
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		before(addr)
		return dial(ctx, network, addr)
	}
	t.CloseIdleConnections()
}

func gathererOf(d driver.Driver) *gatherer {
	return d.(interface{ base() *client }).base().gatherers[0]
}

func (c *client) base() *client { return c }
