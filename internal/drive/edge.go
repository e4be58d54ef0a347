//go:build unix

package drive

import (
	"testing"

	"github.com/stilelock/stile/driver"
)

// Edges are the edges of the tickets of a store that begin with the microseconds of its clock, or above the last
// ticket. Fresh makes a store that nobody has used, and returns its URL and a function that sets the last ticket of a
// name.
func Edges(
	fresh func(t testing.TB, name string) (url string, last func(ticket int64)),
) map[string]func(t testing.TB, name string) driver.Driver {
	edges := map[string]func(t testing.TB, name string) driver.Driver{}
	for edge, ticket := range map[string]int64{"2^51": 1<<51 - 3, "2^52": 1<<52 - 3, "the end of all tickets": 1<<53 - 8} {
		edges[edge] = func(t testing.TB, name string) driver.Driver {
			url, last := fresh(t, name)
			Opener(url)(t).Close()
			last(ticket)
			d, c := Opener(url)(t), Claim(name, "first")
			if Holds(t, d, c); c.Ticket != ticket+1 {
				t.Fatalf("the ticket after %d is %d", ticket, c.Ticket)
			}
			Leave(t, d, c)
			return d
		}
	}
	return edges
}
