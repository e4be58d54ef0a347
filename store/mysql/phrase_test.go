package mysql

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stilelock/stile/internal/servertest"
)

// A phrase says the same as a whole text and as marks with what is at them.
func TestPhrase(t *testing.T) {
	t.Parallel()
	s := &store{keeps: true, owned: &connector{}}
	for _, tt := range []struct {
		text, whole, from, executes string
	}{
		{"DO 1", "DO 1", "FROM 'DO 1'", ""},
		{"DO %v, %s, %d", "DO a, b, c", "FROM 'DO ?, ?, ?'", " USING a, b, c"},
		{"DO %[2]v, 'x', %[1]v, %[2]v", "DO b, 'x', a, b", "FROM 'DO ?, ''x'', ?, ?'", " USING b, a, b"},
	} {
		p, args := s.phrase(tt.text), []string{"a", "b", "c"}
		if got := p.text(args); got != tt.whole {
			t.Errorf("%s: the text is %q, want %q", tt.text, got, tt.whole)
		}
		if got, want := p.prepares(), "PREPARE "+p.name+" "+tt.from; got != want {
			t.Errorf("%s is prepared by %q, want %q", tt.text, got, want)
		}
		if got, want := p.begins(args), p.prepares()+"; "+p.executes(args); got != want {
			t.Errorf("%s begins by %q, want %q", tt.text, got, want)
		}
		if got, want := p.executes(args), "EXECUTE "+p.name+tt.executes; got != want {
			t.Errorf("%s is executed by %q, want %q", tt.text, got, want)
		}
	}
}

// What prepares a block and has it done is a block too.
func TestPhraseOfABlock(t *testing.T) {
	t.Parallel()
	s := &store{keeps: true, owned: &connector{}}
	p := s.phrase(block + "DO %v; DO 2; END")
	want := block + "PREPARE " + p.name + " FROM '" + block + "DO ?; DO 2; END'; EXECUTE " + p.name + " USING a; END"
	if got := p.begins([]string{"a"}); got != want {
		t.Errorf("it begins by %q, want %q", got, want)
	}
}

// goesRound passes a lock round so often that each short way is taken by a text, and by what the server keeps of it.
func goesRound(t *testing.T, d, other *Driver, name string) {
	t.Helper()
	for i := range 4 {
		a, b := claim(name, fmt.Sprint(name, i)), claim(name, fmt.Sprint(name, i, "b"))
		a.Client, b.Client = "a", "b"
		if p := enter(t, d, a); !p.Holds || p.Ticket == 0 {
			t.Fatalf("it entered an empty queue at %+v; want that it holds", p)
		}
		other.store.contended.entering(name).Store(true)
		if p := enter(t, other, b); p.Holds || p.Blocker.Ticket != a.Ticket || b.Ticket <= a.Ticket {
			t.Fatalf("it entered at %+v; want behind ticket %d", p, a.Ticket)
		}
		d.store.contended.leaving(name).Store(true)
		leave(t, d, a)
		await(t, other, b)
		leave(t, other, b)
	}
}

// Where the server keeps no more what it has parsed, the text is sent.
func TestPhrasesAreKept(t *testing.T) {
	t.Parallel()
	url := fresh(t, server, "pool_max_conns=1")
	d, other := open(t, url), open(t, url)
	goesRound(t, d, other, "one")
	if !d.store.keeps {
		return // a MySQL
	}
	if d.store.keepsNone.Load() || other.store.keepsNone.Load() {
		t.Error("the server has kept nothing")
	}
	for _, on := range []*Driver{d, other} { // as if the connection led to another server than before
		for _, p := range []*phrase{on.store.loneEnters, on.store.loneLeaves, on.store.passes, on.store.joins} {
			_, err := on.store.db.ExecContext(timely(t), "DEALLOCATE PREPARE "+p.name)
			if n := number(err); err != nil && n != notKept {
				t.Fatal(err)
			}
		}
	}
	goesRound(t, d, other, "two")
	if !d.store.keepsNone.Load() || !other.store.keepsNone.Load() {
		t.Error("that what was kept is gone, was not noticed")
	}
}

// A lock goes round while a table of it is changed, be it that the server parses anew what it has kept or that it cannot.
func TestPhrasesOutliveTables(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{
		"FLUSH TABLES",
		"ALTER TABLE `{prefix}name` ADD COLUMN `more` INT DEFAULT 5 FIRST",
		"ALTER TABLE `{prefix}claim` ADD COLUMN `more` INT DEFAULT 5 FIRST",
		"ALTER TABLE `{prefix}claim` ADD COLUMN `least` INT DEFAULT 5 FIRST, ADD INDEX (`ends`)",
	} {
		url := fresh(t, server, "pool_max_conns=1")
		d, other := open(t, url), open(t, url)
		goesRound(t, d, other, "one")
		mustExec(t, d.store.db, d.store.place.fill(statement))
		goesRound(t, d, other, "one again")
		t.Logf("after %s the server keeps phrases: %v", statement, !d.store.keepsNone.Load())
	}
}

// A server that keeps no more than it does is sent the text.
func TestPhrasesAreNotKept(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t, slices.Concat(durable, []string{"max_prepared_stmt_count=0"})...)
	url := fresh(t, s)
	d, other := open(t, url), open(t, url)
	goesRound(t, d, other, "name")
	if d.store.keeps && !d.store.keepsNone.Load() {
		t.Error("the server keeps as many as it may, and that was not noticed")
	}
}
