// Package storeid is for drivers that keep the id of their store in the store itself, for driver.Identifier: a random text,
// drawn at the first question, in its own place beside the names.
package storeid

import (
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/stilelock/stile/driver"
)

// Place is the encoded name of the id's place. No name is encoded like this.
const Place = "%id"

const (
	alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567" // of rand.Text
	shortest = 26                                 // a later rand.Text may be longer
	longest  = 104
)

// Draw draws an id.
func Draw() string { return rand.Text() }

// Check returns an id that was read, or an error if Draw did not make it. where names the place, for the message.
func Check(where, id string) (string, error) {
	foreign := strings.ContainsFunc(id, func(c rune) bool { return !strings.ContainsRune(alphabet, c) })
	if foreign || len(id) < shortest || len(id) > longest {
		return "", fmt.Errorf("%w: %s, for the id of the store, has the value %.20q", driver.ErrForeign, where, id)
	}
	return id, nil
}
