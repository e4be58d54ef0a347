package postgres

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/store/postgres/internal/link"
)

// The claims that a queue may have, as the columns id, weight, ends, told and departed; its capacity is 2.
const (
	ownWhole    = "'own', 2, 9e18, true, false"
	ownShared   = "'own', 1, 9e18, true, false"
	ownRunOut   = "'own', 2, 5, true, false"
	otherWhole  = "'other', 2, 9e18, true, false"
	waits       = "'waits', 2, 9e18, false, false"
	waitsShared = "'waits', 1, 9e18, false, false"
	told        = "'told', 2, 9e18, true, false"
	departed    = "'departed', 2, 9e18, true, true"
	runOut      = "'over', 2, 5, false, false"
	nobody      = ""
)

// The function's short way of leaving leaves the same state and sends the same notifications as the long way.
func TestShortWay(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(server))
	pool, hears := connect(t, server), connect(t, server)
	conn, err := hears.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	watch := d.tables.channel()
	if _, err := conn.Exec(t.Context(), `LISTEN "`+d.channel+`/"; LISTEN "`+watch+`"`, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	// leaves makes a queue, lets "own" leave, and returns the result.
	leaves := func(name string, claims []string, watched, keep int64) (found []string) {
		t.Helper()
		exec(t, pool, d.tables.fill(`INSERT INTO "{schema}".{prefix}name (name, last, head, watched) VALUES ($1, 3, 1, $2)`),
			[]byte(name), watched)
		for i, c := range slices.DeleteFunc(slices.Clone(claims), func(c string) bool { return c == nobody }) {
			exec(t, pool, d.tables.fill(`INSERT INTO "{schema}".{prefix}claim (name, ticket, client, channel, owner, record,
capacity, since, delay, id, weight, ends, told, departed) VALUES ($1, $2, '', $3, '', '', 2, 1, 0, `+c+`)`), []byte(name), i+1, d.channel+"/")
		}
		var status string
		scan(t, pool, &status, d.tables.fill(fmt.Sprintf(`SELECT ("{schema}".{prefix}do('leave', '%s', 'own', '', NULL, '', '',
2, 2, 0, 0, 0, %d, 0, false, false)).status`, name, keep)))
		found = append(found, status)
		rows, err := pool.Query(t.Context(), d.tables.fill(`SELECT format('%s told %s queued %s', encode(c.id, 'escape'), c.told,
n.queued) FROM "{schema}".{prefix}name n LEFT JOIN "{schema}".{prefix}claim c ON c.name = n.name AND c.ends > 5
WHERE n.name = $1 ORDER BY c.ticket`), link.Plain, []byte(name))
		if err != nil {
			t.Fatal(err)
		}
		left, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		exec(t, pool, "SELECT pg_notify($1, 'end')", d.channel+"/")
		for {
			n, err := conn.Conn().WaitForNotification(timely(t))
			if err != nil {
				t.Fatal(err)
			}
			if n.Payload == "end" {
				return append(found, left...)
			}
			found = append(found, strings.ReplaceAll(n.Payload, hex.EncodeToString([]byte(name)), "the watch"))
		}
	}
	const triedAlone = -1 // says to the function that its caller has tried the lone way
	i, ways := 0, map[bool]int{}
	for _, first := range []string{ownWhole, ownShared, ownRunOut, otherWhole} {
		for _, second := range []string{nobody, waits, waitsShared, told, departed, runOut} {
			thirds := []string{nobody, waits, waitsShared, ownWhole}
			if first != otherWhole {
				thirds = thirds[:3] // a claim is in the queue once
			}
			for _, third := range thirds {
				for _, watched := range []int64{0, 9e18} {
					queue := []string{first, second, third}
					short := leaves(fmt.Sprint("short", i), queue, watched, triedAlone)
					long := leaves(fmt.Sprint("long", i), queue, watched, 0)
					if !slices.Equal(short, long) {
						t.Errorf("of %q, watched until %d, the short way leaves %q; want %q", queue, watched, short, long)
					}
					i++
					ways[short[0] == "ok"]++
				}
			}
		}
	}
	if ways[true] == 0 || ways[false] == 0 {
		t.Errorf("%d of the claims left, %d were not there: one of them proves nothing", ways[true], ways[false])
	}
}
