//go:build unix

package exit

import (
	"fmt"
	"testing"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
)

// A full disk, or a full memory, is not the fault of the command line: the same command works once there is room.
func TestFullStoreIsWorthAnotherTry(t *testing.T) {
	for _, text := range []string{
		"lock file /a has no room: the disk is full: database or disk is full (13)",
		"lock file /a has no room: the disk is full: disk I/O error (4874)",
		"postgres has no room: the disk is full (53100)",
		"the server has no room (1021: Disk full)",
		"redis has no memory left for a new claim: raise maxmemory, or free some (OOM)",
		"redis accepts no writes, since it cannot save its data (MISCONF)",
		"memcached has no memory left for a claim: give it more, or let it evict other things (SERVER_ERROR out of memory)",
		"etcd has no space left: compact and defragment it, then disarm its alarm",
	} {
		err := &stile.Error{Op: "lock", Name: "a", Err: driver.Refused(fmt.Errorf("%s", text))}
		if got, _ := Of(err); got != Store {
			t.Errorf("%s: status %d, want %d", text, got, Store)
		}
	}
	record := driver.Refused(fmt.Errorf("the column of its holder has no room for a record, which is cut to a few words there"))
	if got, _ := Of(&stile.Error{Op: "lock", Name: "a", Err: record}); got != BadUsage {
		t.Errorf("another kind of room: status %d, want %d", got, BadUsage)
	}
}
