package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/store/sqldb"
)

// A disk is the content of files as it may be after a power cut. A missing file has no entry.
type disk map[string][]byte

// apply applies the remains of one step.
func (d disk) apply(s step) {
	content, there := d[s.file]
	switch {
	case s.syncs:
	case s.deletes:
		delete(d, s.file)
	case s.truncates:
		if there && int64(len(content)) > s.at {
			d[s.file] = content[:s.at:s.at]
		}
	default:
		grown := make([]byte, max(len(content), int(s.at)+len(s.data)))
		copy(grown, content)
		copy(grown[s.at:], s.data)
		d[s.file] = grown
	}
}

const sector = 512

// cuts are the ways in which the steps since a file was last synced may have reached the disk when the power fails. Each
// returns the remains of a step; last says that the step was under way.
var cuts = map[string]func(r *rand.Rand, s step, last bool) []step{
	"all of it":       func(_ *rand.Rand, s step, _ bool) []step { return []step{s} },
	"none of it":      func(*rand.Rand, step, bool) []step { return nil },
	"only the file":   func(_ *rand.Rand, s step, _ bool) []step { return only(s, s.file == "") },
	"only the log":    func(_ *rand.Rand, s step, _ bool) []step { return only(s, s.file != "") },
	"the last torn":   torn,
	"sectors of many": sectors,
}

func only(s step, kept bool) []step {
	if kept {
		return []step{s}
	}
	return nil
}

func torn(_ *rand.Rand, s step, last bool) []step {
	if last {
		s.data = s.data[:len(s.data)/2]
	}
	return []step{s}
}

// sectors keeps or loses each sector of each write, like a disk that writes in an order of its own.
func sectors(r *rand.Rand, s step, _ bool) (left []step) {
	if s.data == nil {
		return only(s, r.IntN(2) == 0)
	}
	for from := 0; from < len(s.data); {
		to := min(len(s.data), from+sector-int(s.at+int64(from))%sector)
		if r.IntN(2) == 0 {
			left = append(left, step{file: s.file, at: s.at + int64(from), data: s.data[from:to]})
		}
		from = to
	}
	return left
}

// cutAfter returns the disk after a power failure after the first n steps.
func cutAfter(steps []step, n int, r *rand.Rand, cut func(*rand.Rand, step, bool) []step) disk {
	folder, synced := -1, map[string]int{}
	for i, s := range steps[:n] {
		if s.syncs {
			synced[s.file] = i
		}
		if s.folder {
			folder = i
		}
	}
	d := disk{}
	for i, s := range steps[:n] {
		if at, any := synced[s.file]; any && i <= at || s.deletes && i <= folder {
			d.apply(s)
			continue
		}
		for _, left := range cut(r, s, i == n-1) {
			d.apply(left)
		}
	}
	return d
}

func (d disk) write(t *testing.T) string {
	t.Helper()
	path := lockFile(t)
	for suffix, content := range d {
		write(t, path+suffix, string(content))
	}
	return path
}

// A moment is the state of the store after a number of steps. Durable ones were checkpointed: no power cut undoes them.
type moment struct {
	steps   int
	state   string
	durable bool
}

// state returns the whole content of a lock file, as text.
func state(t *testing.T, db *sql.DB) string {
	t.Helper()
	var made, text string
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM sqlite_schema").Scan(&made); err != nil {
		t.Fatalf("the file after the power cut: %v", err)
	}
	if made == "0" {
		return "no tables"
	}
	const query = `SELECT last || ' ' || seen || ' ' || coalesce((SELECT group_concat(name || ticket || ' ' || ends)
		FROM (SELECT * FROM stile_claim ORDER BY ticket)), '') FROM stile_meta`
	if err := db.QueryRowContext(t.Context(), query).Scan(&text); err != nil {
		t.Fatalf("the file after the power cut: %v", err)
	}
	return text
}

// TestPowerCut records all of SQLite's writes while locks are taken, renewed and left, and while the log is written back to
// the file. Then it cuts the power after each step, in each of the ways in which a disk may have kept unsynced data, and
// opens the remains in another boot. The promises are: the file opens; it is in the state after one of its transactions,
// never a mixture, and never from before the last checkpoint; no claim of the earlier boot holds; and tickets rise above all
// tickets that were ever given, also by transactions that the power cut undid.
func TestPowerCut(t *testing.T) {
	path := lockFile(t)
	r := take(t, path)
	moments := []moment{{state: "no tables"}}
	own := raw(t, path+"?_pragma=wal_autocheckpoint(16)") // so that the driver writes the log back every few transactions
	d, err := sqldb.New(t.Context(), own, nil)
	if err != nil {
		t.Fatal(err)
	}
	db := raw(t, path+"?_pragma=synchronous(normal)")
	db.SetMaxOpenConns(1)
	state(t, db) // opens the connection
	r.stop()
	mark := func() {
		before := moments[len(moments)-1].steps
		n := r.length()
		durable := false // the file was synced after the last write to the log
		for _, s := range r.steps[before:n] {
			durable = s.file == "" && s.syncs || durable && s.data == nil
		}
		moments = append(moments, moment{n, state(t, db), durable})
	}
	mark()

	var highest int64
	var held []*driver.Claim
	for i := range 12 {
		c := claim(fmt.Sprintf("name %d", i%5), time.Hour)
		p, err := d.Enter(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		c.Ticket = p.Ticket
		highest = max(highest, p.Ticket)
		held = append(held, c)
		mark()
		switch i % 4 {
		case 1:
			d.Renew(t.Context(), held[len(held)-1:])
			mark()
		case 2:
			leave(t, d, held[0])
			held = held[1:]
			mark()
		case 3:
			// After a restart, the log is written from its beginning, over its synced part.
			mustExec(t, db, "PRAGMA wal_checkpoint("+[]string{"PASSIVE", "RESTART", "TRUNCATE"}[i/4]+")")
			mark()
		}
	}
	if err := errors.Join(db.Close(), d.Close(), own.Close()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d steps, %d moments", len(r.steps), len(moments))
	last := moments[len(moments)-1]
	moments = append(moments, moment{len(r.steps), last.state, true})

	defer boottime.Pretend("00000000-0000-4000-8000-000000000000")()
	seen := map[string]bool{}
	for name, cut := range cuts {
		for n := range len(r.steps) + 1 {
			left := cutAfter(r.steps, n, rand.New(rand.NewPCG(1, uint64(n))), cut)
			allowed := allowedAfter(moments, n)
			key := fmt.Sprint(allowed[0].steps, len(allowed))
			for _, suffix := range []string{"", "-journal", "-wal"} {
				content, there := left[suffix]
				key += fmt.Sprint(there, len(content), string(content))
			}
			if seen[key] {
				continue
			}
			seen[key] = true
			if !survives(t, left, allowed, held, highest) {
				t.Fatalf("the power was cut after step %d of %d, and the disk kept %s of what was not synced", n, len(r.steps), name)
			}
		}
	}
	t.Logf("%d different disks", len(seen))
}

// allowedAfter returns the possible moments of the store after a power failure after n steps: from the last that was written
// back, to the one whose transaction was being committed.
func allowedAfter(moments []moment, n int) []moment {
	from, to := 0, 0
	for i, m := range moments {
		if m.steps <= n {
			if to = i; m.durable {
				from = i
			}
		}
	}
	return moments[from:min(to+2, len(moments))]
}

// survives checks the promises for a disk after a cut.
func survives(t *testing.T, left disk, allowed []moment, held []*driver.Claim, highest int64) bool {
	t.Helper()
	copied := left.write(t)
	db := raw(t, copied)
	got := state(t, db)
	db.Close()
	if !slices.ContainsFunc(allowed, func(m moment) bool { return m.state == got }) {
		t.Errorf("the state is %q; want that of one of these moments: %+v", got, allowed)
	}

	path := left.write(t)
	d, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Errorf("open: %v", err)
		return false
	}
	defer os.RemoveAll(filepath.Dir(path))
	defer os.RemoveAll(filepath.Dir(copied))
	defer d.Close()
	if list, err := d.(driver.Lister).List(t.Context(), &driver.Query{}); err != nil || len(list) != 0 {
		t.Errorf("list = %+v, %v; want nothing of the earlier boot", list, err)
	}
	for _, c := range held {
		if got := d.Renew(t.Context(), []*driver.Claim{c})[0].Err; !errors.Is(got, driver.ErrGone) {
			t.Errorf("renewal of a claim of the earlier boot = %v; want %v", got, driver.ErrGone)
		}
		next := claim(c.Name, time.Minute)
		if p, err := d.Enter(t.Context(), next); err != nil || p.Holds != (p.Ahead == 0) || p.Ticket <= highest {
			t.Errorf("enter = %+v, %v; want a ticket above %d, and to hold what nobody holds in this boot", p, err, highest)
		}
	}
	return !t.Failed()
}
