package remote

import (
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

func (c *client) base() *client { return c }
