package mysql

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// asBlocks runs a test with the short ways as several statements, and as one block of them where the server is a MariaDB.
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
	d.store.shorten()
}

// A claim that enters behind others may take the short way. It says and leaves what the long way says and leaves.
func TestJoinShortWay(t *testing.T) { asBlocks(t, joinShortWay) }

func joinShortWay(t *testing.T, d *Driver) {
	fill := d.store.place.fill
	queue := func(name string, claims []string) {
		t.Helper()
		mustExec(t, d.store.db, fill(fmt.Sprintf("INSERT INTO `{prefix}name` (`hash`, `name`, `last`, `head`) VALUES (%v, '%s', 9e15, 1)",
			keyOf(name), name)))
		for i, c := range claims {
			mustExec(t, d.store.db, fill(fmt.Sprintf("INSERT INTO `{prefix}claim` (`hash`, `ticket`, `client`, `owner`, `record`, `since`, `delay`, "+
				"`id`, `weight`, `capacity`, `ends`, `told`, `departed`) VALUES (%v, %d, '', '', 'r%[2]d', 1, 7000000, %s)", keyOf(name), i+1, c)))
		}
	}
	// said is an answer without what differs from moment to moment.
	said := func(p driver.Place, err error) string {
		return fmt.Sprintf("%d holds %v ttl %v ahead %d behind %d of %d holds %v left %v %q since %v remaining %v retry %v: %v",
			p.Ticket, p.Holds, p.TTL, p.Ahead, p.Blocker.Ticket, p.Blocker.Weight, p.Blocker.Holds, p.Blocker.Left, p.Blocker.Record,
			p.Blocker.Since.Round(time.Hour), p.Blocker.Remaining.Round(time.Hour), p.Retry.Round(time.Hour), err)
	}
	entries := func(name string) (list []driver.Entry) {
		t.Helper()
		named, now, err := d.store.Read(timely(t), &driver.Query{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range named {
			n.Queue.Expire(now)
			for _, e := range n.Queue.Entries {
				if e.Ticket > 9 {
					e.Since, e.Ends = 0, (e.Ends - e.Since)
				}
				list = append(list, e)
			}
			list = append(list, driver.Entry{Ticket: n.Queue.Last, Weight: n.Queue.Capacity})
		}
		return list
	}
	whole, reads, permit1, own := claim("", "new"), claim("", "new"), claim("", "new"), claim("", "own")
	reads.Weight, permit1.Weight, permit1.Capacity = 1, 1, 1
	again := claim("", "own")
	again.Ticket = 1
	i, ways := 0, map[bool]int{}
	for _, first := range []string{ownWhole, ownShared, ownRunOut, ownWaits, otherWhole, permit} {
		for _, second := range []string{nobody, waits, waitsRead, told, departed, runOut} {
			claims := slices.DeleteFunc([]string{first, second}, func(c string) bool { return c == nobody })
			for _, c := range []*driver.Claim{whole, reads, permit1, own, again} {
				i++
				short, long := *c, *c
				short.Name, long.Name = fmt.Sprint("short ", i), fmt.Sprint("long ", i)
				short.Wait, long.Wait = 3*time.Second, 3*time.Second
				queue(short.Name, claims)
				queue(long.Name, claims)
				var got driver.Place
				if d.store.joinable(&short) {
					var err error
					if got, err = d.store.join(timely(t), &short); err != nil {
						t.Fatal(err)
					}
				}
				ways[got.Ticket != 0]++
				want, err := d.Driver.Enter(timely(t), &long)
				if got.Ticket == 0 {
					if short, before := queueIn(t, d, short.Name), len(claims); len(short) != before {
						t.Errorf("%q, %s of %d: the short way, which was not taken, left %v", claims, c.ID, c.Weight, short)
					}
					continue
				}
				if got, want := said(got, nil), said(want, err); got != want {
					t.Errorf("%q, %s of %d: the short way says %s\nand the long way %s", claims, c.ID, c.Weight, got, want)
				}
				if got, want := entries(short.Name), entries(long.Name); !slices.Equal(got, want) {
					t.Errorf("%q, %s of %d: the short way leaves %+v\nand the long way %+v", claims, c.ID, c.Weight, got, want)
				}
			}
		}
	}
	if ways[true] == 0 || ways[false] == 0 {
		t.Errorf("%d claims entered by the short way, %d did not: one of them proves nothing", ways[true], ways[false])
	}
}

// A client that had to wait enters behind others in one round trip the next time, the lock comes to it, and it passes it on in
// one, be it as one block of statements or not.
func TestJoinOneRoundTrip(t *testing.T) {
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
		least := map[string]int{"join": 9, "pass": 9}
		for i := range 5 {
			c, behind := claim("name", fmt.Sprint("c", i)), claim("name", fmt.Sprint("d", i))
			c.Client, behind.Client = "c", "d"
			d.store.contended.entering("name").Store(true)
			asked := proxy.Asked()
			p := enter(t, d, c)
			least["join"] = min(least["join"], proxy.Asked()-asked)
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
		if least["join"] != 1 || least["pass"] != 1 {
			t.Errorf("as blocks %v: entering and leaving took %v round trips; want 1 each", blocks, least)
		}
	}
}

// The answer to a claim that enters behind others is lost: asked again, the claim is found where it stands.
func TestJoinAnswerLost(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	proxy := servertest.NewProxy(t, server.Addr)
	d, direct := open(t, "mysql://root@"+proxy.Addr+"/"+name), open(t, "mysql://root@"+server.Addr+"/"+name)
	enter(t, direct, claim("name", "held"))
	enter(t, direct, claim("name", "second"))
	d.store.contended.entering("name").Store(true)
	var err error
	for there, tries := false, 0; !there; tries++ {
		warm := claim(rand.Text(), "warm")
		enter(t, d, warm)
		leave(t, d, warm) // there is a connection now
		proxy.Freeze(false, true)
		entered := make(chan error, 1)
		go func() {
			_, err := d.Enter(context.WithoutCancel(t.Context()), claim("name", "a"))
			entered <- err
		}()
		servertest.Until(t, "the claim is there, or was not sent", func() bool {
			over := len(entered) > 0
			there = count(t, direct, queued) == 3
			return there || over
		})
		proxy.Cut()
		err = <-entered
		proxy.Mend()
		if !there && (driver.OutcomeOf(err) != driver.OutcomeUnsent || tries == 5) { // else the connection was used for something else
			t.Fatalf("the claim is not there after %v", err)
		}
	}
	marks(t, err, false, true)
	if p, err := d.Enter(timely(t), claim("name", "a")); err != nil || p.Holds || p.Ahead != 2 {
		t.Errorf("entering again = %+v, %v; want to wait behind two", p, err)
	}
	if n := count(t, direct, queued); n != 3 {
		t.Errorf("%d claims are there; want three", n)
	}
}

// Where a setting of the server makes a block no statement, as sql_mode ORACLE does, the long way is taken.
func TestBlockIsRefused(t *testing.T) {
	t.Parallel()
	url := fresh(t, server)
	d, other := open(t, url), open(t, url)
	d.store.blocks, d.store.passes, d.store.joins = true, "BEGIN NOT %v", "BEGIN NOT %v"
	held, waits, behind := claim("name", "held"), claim("name", "waits"), claim("name", "behind")
	enter(t, other, held)
	d.store.contended.entering("name").Store(true)
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
