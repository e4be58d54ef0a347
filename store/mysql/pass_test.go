package mysql

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// The claims that a queue may have, as the columns id, weight, capacity, ends, told and departed.
const (
	ownWhole   = "'own', 2147483647, 2147483647, 9e18, 1, 0"
	ownShared  = "'own', 1, 2147483647, 9e18, 1, 0"
	ownRunOut  = "'own', 2147483647, 2147483647, 5, 1, 0"
	ownWaits   = "'own', 2147483647, 2147483647, 9e18, 0, 0"
	otherWhole = "'other', 2147483647, 2147483647, 9e18, 1, 0"
	permit     = "'own', 1, 1, 9e18, 1, 0"
	waits      = "'waits', 2147483647, 2147483647, 9e18, 0, 0"
	waitsRead  = "'waits', 1, 2147483647, 9e18, 0, 0"
	told       = "'told', 2147483647, 2147483647, 9e18, 1, 0"
	departed   = "'departed', 2147483647, 2147483647, 9e18, 1, 1"
	runOut     = "'over', 2147483647, 2147483647, 5, 0, 0"
	nobody     = ""
)

// asBlocks runs a test with the short way as several statements and, on MariaDB, as one block of them.
func asBlocks(t *testing.T, test func(t *testing.T, d *Driver)) {
	forms := []bool{false}
	s := open(t, fresh(t, server)).store
	if is := maria(t, s.db); s.blocks != is {
		t.Fatalf("the server takes blocks: %v; want %v", s.blocks, is)
	}
	if s.blocks {
		forms = append(forms, true)
	}
	for _, blocks := range forms {
		t.Run(fmt.Sprint("blocks ", blocks), func(t *testing.T) {
			t.Parallel()
			d := open(t, fresh(t, server))
			blocked(d, blocks)
			test(t, d)
		})
	}
}

func blocked(d *Driver, blocks bool) {
	d.store.blocks = blocks
	d.store.passes = d.store.short()
}

// The short way of leaving leaves the same state behind as the long way.
func TestShortWay(t *testing.T) { asBlocks(t, shortWay) }

func shortWay(t *testing.T, d *Driver) {
	db := d.store.db
	// leaves makes a queue whose last ticket is too high for the cleaning, lets "own" leave, and returns the result.
	leaves := func(name string, claims []string, short bool) (found []string, took bool) {
		t.Helper()
		mustExec(t, db, d.store.place.fill(fmt.Sprintf("INSERT INTO `{prefix}name` (`hash`, `name`, `last`, `head`) VALUES (%v, '%s', 9e15, 1)",
			keyOf(name), name)))
		var err error
		c := claim(name, "own")
		for i, columns := range slices.DeleteFunc(slices.Clone(claims), func(c string) bool { return c == nobody }) {
			if c.Ticket == 0 || strings.HasPrefix(columns, "'own'") {
				c.Ticket = int64(i + 1)
			}
			mustExec(t, db, d.store.place.fill(fmt.Sprintf("INSERT INTO `{prefix}claim` (`hash`, `ticket`, `client`, `owner`, `record`, `since`, `delay`, "+
				"`id`, `weight`, `capacity`, `ends`, `told`, `departed`) VALUES (%v, %d, '', '', '', 1, 0, %s)", keyOf(name), i+1, columns)))
		}
		if short {
			var p passed
			if p, err = d.store.pass(timely(t), c); p.next != nil {
				took = true
				found = append(found, "woke "+p.next.ID)
			}
		}
		if !took {
			err = errors.Join(err, d.Driver.Leave(timely(t), &driver.Release{Claim: c}))
		}
		switch {
		case errors.Is(err, driver.ErrGone):
			found = append(found, "gone")
		case err != nil:
			t.Fatal(err)
		}
		rows, err := db.QueryContext(timely(t), d.store.place.fill("SELECT c.`id`, c.`told`, n.`queued` FROM `{prefix}name` n LEFT JOIN `{prefix}claim` c "+
			"ON c.`hash` = n.`hash` AND c.`ends` > 5 WHERE n.`name` = '"+name+"' ORDER BY c.`ticket`"))
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var id sql.NullString
			var told, queued sql.NullBool
			if err := rows.Scan(&id, &told, &queued); err != nil {
				t.Fatal(err)
			}
			found = append(found, fmt.Sprintf("%s told %v queued %v", id.String, told.Bool, queued.Bool))
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return found, took
	}
	i, ways := 0, map[bool]int{}
	for _, first := range []string{ownWhole, ownShared, ownRunOut, ownWaits, otherWhole, permit} {
		for _, second := range []string{nobody, waits, waitsRead, told, departed, runOut} {
			thirds := []string{nobody, waits, waitsRead, ownWaits}
			if first != otherWhole {
				thirds = thirds[:3] // a claim is in the queue once
			}
			for _, third := range thirds {
				queue := []string{first, second, third}
				short, took := leaves(fmt.Sprint("short", i), queue, true)
				long, _ := leaves(fmt.Sprint("long", i), queue, false)
				short = slices.DeleteFunc(short, func(s string) bool { return strings.HasPrefix(s, "woke ") })
				if !slices.Equal(short, long) {
					t.Errorf("of %q, the short way leaves %q; want %q", queue, short, long)
				}
				i++
				ways[took]++
			}
		}
	}
	if ways[true] == 0 || ways[false] == 0 {
		t.Errorf("%d queues were left by the short way, %d were not: one of them proves nothing", ways[true], ways[false])
	}
}

// A client that leaves by the short way notifies its own waiters, and wakes the clients of others.
func TestShortWayWakes(t *testing.T) {
	t.Parallel()
	url := fresh(t, server)
	from, to := open(t, url), open(t, url)
	held, waits, told := listening(t, to, from, rand.Text())
	if err := renew(t, from, held); err != nil { // it shows that somebody waits
		t.Fatal(err)
	}
	sleeps(t, waits.Client)
	was := lastWakeup(to)
	p, err := from.store.pass(timely(t), held)
	if err != nil || p.next == nil || p.next.ID != waits.ID {
		t.Fatalf("the short way = %+v, %v; want that %s holds", p.next, err, waits.ID)
	}
	if p := <-told; !p.Holds {
		t.Fatalf("the waiter was told %+v", p)
	}
	until(t, "for the wakeup", func() bool { return lastWakeup(to).After(was) })
	leave(t, to, waits)
}

// A holder hands the lock over in one round trip, with a block of statements or without. Entering behind others takes two:
// one text for both would save nothing over a link.
func TestPassOneRoundTrip(t *testing.T) {
	t.Parallel()
	for _, blocks := range []bool{true, false} {
		name := database(t, server)
		proxy := servertest.NewProxy(t, server.Addr)
		d, other := open(t, "mysql://root@"+proxy.Addr+"/"+name), open(t, "mysql://root@"+server.Addr+"/"+name)
		if blocks && !d.store.blocks {
			continue // a MySQL
		}
		blocked(d, blocks)
		held := claim("name", "held")
		enter(t, other, held)
		least := map[string]int{"enter": 9, "pass": 9}
		for i := range 5 {
			c, behind := claim("name", fmt.Sprint("c", i)), claim("name", fmt.Sprint("d", i))
			c.Client, behind.Client = "c", "d"
			d.store.contended.entering("name").Store(true)
			asked := proxy.Asked()
			p := enter(t, d, c)
			least["enter"] = min(least["enter"], proxy.Asked()-asked)
			if p.Holds || p.Blocker.Ticket != held.Ticket {
				t.Fatalf("it entered at %+v; want behind ticket %d", p, held.Ticket)
			}
			enter(t, other, behind)
			leave(t, other, held)
			if err := renew(t, d, c); err != nil {
				t.Fatal(err)
			}
			d.store.contended.leaving("name").Store(true)
			asked = proxy.Asked()
			leave(t, d, c)
			least["pass"] = min(least["pass"], proxy.Asked()-asked)
			if err := renew(t, other, behind); err != nil {
				t.Fatal(err)
			}
			held = behind
		}
		if least["enter"] != 2 || least["pass"] != 1 {
			t.Errorf("as blocks %v: entering and leaving took %v round trips; want 2 and 1", blocks, least)
		}
	}
}

// If a setting of the server forbids blocks, as sql_mode ORACLE does, the driver uses the long way.
func TestBlockIsRefused(t *testing.T) {
	t.Parallel()
	url := fresh(t, server)
	d, other := open(t, url), open(t, url)
	d.store.blocks, d.store.passes = true, "BEGIN NOT %v"
	held, waits, behind := claim("name", "held"), claim("name", "waits"), claim("name", "behind")
	enter(t, other, held)
	if p := enter(t, d, waits); p.Holds || p.Blocker.Ticket != held.Ticket {
		t.Errorf("it entered at %+v; want behind ticket %d", p, held.Ticket)
	}
	enter(t, other, behind)
	leave(t, other, held)
	await(t, d, waits)
	d.store.contended.leaving("name").Store(true)
	leave(t, d, waits)
	await(t, other, behind)
	leave(t, other, behind)
}
