package memcached

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stilelock/stile/internal/servertest"
)

// TestCost counts the commands of an uncontended lock. A command to store and one to read go together.
func TestCost(t *testing.T) {
	t.Parallel()
	s := servertest.Memcached(t)
	for parameters, want := range map[string]map[string]int{
		"":              {"cmd_set": 20, "get_hits": 20, "get_misses": 0},
		"?layout=plain": {"cmd_set": 10, "get_hits": 10, "delete_hits": 10},
	} {
		d := open(t, s.Addr, parameters)
		holds(t, d, claim("warm", "a"))
		if err := leave(t, d, claim("warm", "a")); err != nil {
			t.Fatal(err)
		}
		before := counters(s)
		for i := range 10 {
			c := claim("warm", "b"+strconv.Itoa(i))
			holds(t, d, c)
			if err := leave(t, d, c); err != nil {
				t.Fatal(err)
			}
		}
		after := counters(s)
		for name, n := range want {
			if got := after[name] - before[name]; got != n {
				t.Errorf("%s: ten locks cost %s %d; want %d", parameters, name, got, n)
			}
		}
	}
}

// counters returns the server's numeric statistics.
func counters(s *servertest.Server) map[string]int {
	all := map[string]int{}
	for line := range strings.Lines(s.Memcached("stats\r\n")) {
		if f := strings.Fields(line); len(f) == 3 {
			all[f[1]], _ = strconv.Atoi(f[2])
		}
	}
	return all
}
