// Package storeid is for drivers that keep the id of their store in the store itself, for driver.Identifier: a text
// that is drawn at random when somebody first asks, in a place of its own beside the names.
package storeid

import (
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/stilelock/stile/driver"
)

// Place is encoded in place of a name for the id. No name is encoded like this.
const Place = "%id"

const (
	alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567" // of rand.Text
	shortest = 26                                 // a later rand.Text may be longer
	longest  = 104
)

// Draw draws an id.
func Draw() string { return rand.Text() }

// Check returns an id as it was read, or why it was not drawn by Draw. Where is the place where it was read, for the message.
func Check(where, id string) (string, error) {
	foreign := strings.ContainsFunc(id, func(c rune) bool { return !strings.ContainsRune(alphabet, c) })
	if foreign || len(id) < shortest || len(id) > longest {
		return "", fmt.Errorf("%w: %s, for the id of the store, has the value %.20q", driver.ErrForeign, where, id)
	}
	return id, nil
}
