//go:build unix

package remote_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/store/memory"
	"github.com/stilelock/stile/store/remote"
)

// A truncated list is an error.
func TestListIsWhole(t *testing.T) {
	for name, text := range map[string]string{
		"cut between lines": `{"heard":3}` + "\n" + `{"listing":{"name":"a","capacity":1,"claims":[]}}` + "\n",
		"cut in a line":     `{"listing":{"name":"a","capac`,
	} {
		addr, _ := service(t, memory.New(), func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != api.List {
					next.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", api.Lines)
				fmt.Fprint(w, text)
			})
		})
		list, err := open(t, addr).(driver.Lister).List(t.Context(), &driver.Query{})
		if list != nil || !driver.IsUnreachable(err) {
			t.Errorf("%s: %+v, %v; want no list, and unreachable", name, list, err)
		}
	}
}

// A list, like any other request, leaves its connection to the next one.
func TestListKeepsItsConnection(t *testing.T) {
	peers := map[string]bool{}
	addr, _ := service(t, memory.New(), func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == api.List { // one request at a time
				peers[r.RemoteAddr] = true
			}
			next.ServeHTTP(w, r)
		})
	})
	d := open(t, addr)
	for range 5 {
		if _, err := d.(driver.Lister).List(t.Context(), &driver.Query{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(peers); n != 1 {
		t.Errorf("5 lists took %d connections; want 1", n)
	}
}

// A list that is too large for its client is an error too, which says what to do.
func TestListIsBounded(t *testing.T) {
	m := memory.New()
	addr, _ := service(t, m, nobody)
	c := drive.Claim("a", "x")
	c.Record = strings.Repeat("\xff", driver.MaxRecord)
	drive.Holds(t, m, c)
	d := open(t, addr)
	for _, tt := range []struct {
		most int64
		fits bool
	}{{1 << 20, true}, {1 << 10, false}} {
		remote.SetMostList(d, tt.most)
		list, err := d.(driver.Lister).List(t.Context(), &driver.Query{})
		if fits := err == nil && len(list) == 1; fits != tt.fits {
			t.Errorf("a list for a client that takes %d bytes = %d names, %v; want that it fits: %v", tt.most, len(list), err, tt.fits)
		}
		if !tt.fits {
			judge(t, "a list that is too large", err, driver.OutcomeRefused, false)
			drive.Says(t, err, "has more than", "prefix")
		}
	}
}
