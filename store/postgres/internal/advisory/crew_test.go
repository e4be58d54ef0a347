package advisory

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// Whatever is locked and unlocked, in any order: no key is on the connection that is to wait, each stays where it was
// locked, and keys are tried where others are.
func TestCrew(t *testing.T) {
	t.Parallel()
	const mostKeys = 2
	type world struct {
		crew   crew
		locked map[*backend]int
	}
	events := map[string]func(w *world) bool{
		"a key is locked on main": func(w *world) bool { w.locked[w.crew.main]++; return true },
		"a key is unlocked on main": func(w *world) bool {
			w.locked[w.crew.main]--
			return w.locked[w.crew.main] >= 0
		},
		"a key is unlocked on second": func(w *world) bool {
			w.locked[w.crew.second]--
			return w.locked[w.crew.second] >= 0
		},
		"the session on main ends": func(w *world) bool { w.locked[w.crew.main] = 0; return true },
		"the scout locks a key": func(w *world) bool {
			if w.crew.full(w.locked) {
				return false // it comes back without
			}
			before := w.crew.spare
			w.crew.granted(w.locked)
			w.locked[before]++
			return true
		},
	}
	state := func(w *world) string {
		return fmt.Sprint(w.locked[w.crew.main], w.locked[w.crew.second], w.locked[w.crew.spare])
	}
	seen := map[string]bool{}
	fresh := func() *world {
		return &world{newCrew(func() *backend { return &backend{} }), map[*backend]int{}}
	}
	for queue := []*world{fresh()}; len(queue) > 0; queue = queue[1:] {
		for name, happens := range events {
			w := &world{queue[0].crew, maps.Clone(queue[0].locked)}
			if !happens(w) || w.locked[w.crew.main] > mostKeys {
				continue
			}
			sum := 0
			for _, n := range w.locked {
				sum += n
			}
			w.crew.tidy(w.locked, true)
			for _, b := range w.crew.all() {
				sum -= w.locked[b]
			}
			switch all := w.crew.all(); {
			case sum != 0 || all[0] == all[1] || all[1] == all[2] || all[0] == all[2]:
				t.Fatalf("%s in %s: a connection is gone", name, state(queue[0]))
			case w.locked[w.crew.spare] > 0:
				t.Fatalf("%s in %s: the connection that waits has a key: %s", name, state(queue[0]), state(w))
			case w.locked[w.crew.main] == 0 && w.locked[w.crew.second] > 0:
				t.Fatalf("%s in %s: keys are tried where there are none: %s", name, state(queue[0]), state(w))
			}
			if !seen[state(w)] {
				seen[state(w)] = true
				queue = append(queue, w)
			}
		}
	}
	if want := "2 1 0"; !seen[want] {
		t.Errorf("%s was not reached; only %v", want, slices.Sorted(maps.Keys(seen)))
	}
}

// A scout goes only the ways that are drawn.
func TestScoutMoves(t *testing.T) {
	t.Parallel()
	drawn := map[[2]scoutState]bool{
		{scoutHome, scoutOut}: true, {scoutOut, scoutHome}: true, {scoutOut, scoutRecalled}: true, {scoutRecalled, scoutHome}: true,
	}
	for was := scoutHome; was <= scoutRecalled; was++ {
		for next := scoutHome; next <= scoutRecalled; next++ {
			s := scout{state: was}
			if got, want := s.move(next), drawn[[2]scoutState{was, next}]; got != want || (s.state == next) != (want || was == next) {
				t.Errorf("from %d to %d: %v, in %d; want %v", was, next, got, s.state, want)
			}
		}
	}
}

// locks counts the advisory locks that the connections of an application have, without their tags.
func locks(t *testing.T, application string) (n int) {
	t.Helper()
	const had = "SELECT count(*) - count(DISTINCT pid) FROM pg_locks JOIN pg_stat_activity USING (pid) " +
		"WHERE application_name = $1 AND locktype = 'advisory' AND granted"
	return count(t, had, application)
}

// A client that holds one lock and waits for others has each where it came to be locked, on three connections at most, and
// unlocks each there.
func TestHoldsOnTwoConnections(t *testing.T) {
	t.Parallel()
	const application = "two-homes"
	one, two := open(t, at(server)), open(t, at(server, "application_name="+application))
	own := claim(rand.Text(), rand.Text())
	enter(t, two, own, true)
	var held, next [3]*driver.Claim
	for i := range held {
		name := rand.Text()
		held[i], next[i] = claim(name, rand.Text()), claim(name, rand.Text())
		enter(t, one, held[i], true)
		told := waits(t, two, next[i])
		servertest.Until(t, "the scout waits", func() bool { return inServer(t, application) == 1 })
		leave(t, one, held[i])
		if p := <-told; !p.Holds {
			t.Fatalf("claim %d was told %+v", i, p)
		}
		if n := locks(t, application); n != i+2 {
			t.Errorf("%d keys are locked; want %d", n, i+2)
		}
	}
	if err := renew(t, two, own); err != nil {
		t.Errorf("renewal on the first connection = %v", err)
	}
	if err := renew(t, two, next[0]); err != nil {
		t.Errorf("renewal on the second = %v", err)
	}
	if n := count(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", application); n > 3 {
		t.Errorf("%d connections; want 3 at most", n)
	}
	for _, c := range append(next[:], own) {
		leave(t, two, c)
		try := claim(c.Name, rand.Text())
		try.Try = true
		enter(t, one, try, true)
	}
	if n := locks(t, application); n != 0 {
		t.Errorf("%d keys are still locked", n)
	}
}

// A claim that leaves while it may be getting its lock leaves nothing locked behind.
func TestLeavesWhileGranted(t *testing.T) {
	t.Parallel()
	const application = "leaves-while-granted"
	one, two := open(t, at(server)), open(t, at(server, "application_name="+application))
	for round := range 20 {
		name := rand.Text()
		held, next := claim(name, rand.Text()), claim(name, rand.Text())
		enter(t, one, held, true)
		enter(t, two, next, false)
		servertest.Until(t, "the scout waits", func() bool { return inServer(t, application) == 1 })
		freed, ctx := make(chan error, 1), timely(t)
		go func() { freed <- one.Leave(ctx, &driver.Release{Claim: held}) }()
		leave(t, two, next)
		if err := <-freed; err != nil {
			t.Fatal(err)
		}
		third := claim(name, rand.Text())
		if p, err := one.Enter(timely(t), third); err != nil {
			t.Fatal(err)
		} else if !p.Holds {
			if p, err = one.Await(timely(t), third); err != nil || !p.Holds {
				t.Fatalf("round %d: the next was told %+v, %v", round, p, err)
			}
		}
		leave(t, one, third)
	}
	servertest.Until(t, "nothing is locked", func() bool { return locks(t, application) == 0 })
}

// What the scout has locked when it was not wanted any more is unlocked.
func TestRecalledTooLate(t *testing.T) {
	t.Parallel()
	const application = "recalled-too-late"
	one, two := open(t, at(server)), open(t, at(server, "application_name="+application))
	name := rand.Text()
	held, next := claim(name, rand.Text()), claim(name, rand.Text())
	enter(t, one, held, true)
	enter(t, two, next, false)
	servertest.Until(t, "the scout waits", func() bool { return inServer(t, application) == 1 })
	ctx := timely(t)
	if err := two.order(ctx, func() {
		if err := one.Leave(ctx, &driver.Release{Claim: held}); err != nil {
			t.Error(err)
		}
		answer := <-two.scout.back
		if err := two.leave(next.ID, 0); err != nil {
			t.Error(err)
		}
		two.scout.aim(two.claims, &two.crew, time.Now(), time.Now())
		two.returned(answer)
		if two.crew.spare.conn != nil {
			t.Error("the connection that has the key is kept")
		}
	}); err != nil {
		t.Fatal(err)
	}
	servertest.Until(t, "nothing is locked", func() bool { return locks(t, application) == 0 })
}

// The server may have ended the connection that locked a key if its answer came late. Then the claim that waited is not
// told that it holds before the connection has answered once more.
func TestGrantIsLate(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		application := fmt.Sprint("late-grant-", late)
		one, two := open(t, at(server)), open(t, at(server, "application_name="+application))
		name := rand.Text()
		held, next := claim(name, rand.Text()), claim(name, rand.Text())
		enter(t, one, held, true)
		waits(t, two, next)
		servertest.Until(t, "the scout waits", func() bool { return inServer(t, application) == 1 })
		var holds bool
		ctx := timely(t)
		if err := two.order(ctx, func() {
			if err := one.Leave(ctx, &driver.Release{Claim: held}); err != nil {
				t.Error(err)
			}
			answer := <-two.scout.back
			kill(t, application)
			servertest.Until(t, "the key is free", func() bool { return locks(t, application) == 0 })
			enter(t, one, claim(name, rand.Text()), true)
			if late {
				two.scout.sent = two.scout.sent.Add(-two.timeout)
			}
			two.crew.main.unwatch() // it was ended too
			two.returned(answer)
			holds = two.claims.holds(next.ID)
		}); err != nil {
			t.Fatal(err)
		}
		if holds == late {
			t.Errorf("late %v: holds = %v", late, holds)
		}
	}
}

func count(t testing.TB, statement string, args ...any) (n int) {
	t.Helper()
	conn, err := pgx.Connect(timely(t), at(server))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(timely(t), statement, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
