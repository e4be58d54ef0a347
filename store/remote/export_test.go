package remote

import (
	"time"

	"github.com/stilelock/stile/driver"
)

// SetSilence says after which time a watch without a sign of life counts as dead, of a driver whose store can list, watch
// and break.
func SetSilence(d driver.Driver, silence time.Duration) {
	d.(interface{ base() *client }).base().silence = silence
}

// SetMostList says how many bytes a list may have, of such a driver.
func SetMostList(d driver.Driver, bytes int64) {
	d.(interface{ base() *client }).base().mostList = bytes
}

func (c *client) base() *client { return c }
