package guardtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/internal/python"
)

// Vectors are what a guard in any language must answer. Tokens are texts, since many readers of JSON would round them.
type Vectors struct {
	Names, Identifiers struct{ Good, Bad []string }
	Tokens             []struct{ Text, Token, Error string }
	Judge              []struct{ Token, Mark, Error string }
	Schemas            map[string]map[string]string // by the dialect and the table's name
	Histories          []struct {
		Name         string
		Transactions []struct {
			Steps []Step
			End   string // commit or rollback
		}
	}
}

// A Step is a raise or a check in a transaction, and what it must answer.
type Step struct{ Do, Token, Error, Newer string }

// ReadVectors reads clients/vectors/guard.json.
func ReadVectors(t testing.TB) *Vectors {
	t.Helper()
	folder, err := python.Folder()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "..", "vectors", "guard.json"))
	if err != nil {
		t.Fatal(err)
	}
	v := &Vectors{}
	if err := json.Unmarshal(text, v); err != nil || len(v.Names.Good) == 0 || len(v.Tokens) == 0 || len(v.Judge) == 0 ||
		len(v.Schemas) == 0 || len(v.Histories) == 0 {
		t.Fatalf("the vectors are %+v, %v", v, err)
	}
	return v
}

// Word returns the word by which the vectors call an error of package guard.
func Word(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, guard.ErrStale):
		return "stale"
	case errors.Is(err, guard.ErrNotRaised):
		return "not raised"
	case errors.Is(err, guard.ErrNoToken):
		return "no token"
	case errors.Is(err, guard.ErrInvalid):
		return "invalid"
	}
	return err.Error()
}

// ParseToken reads a token of the vectors, which may be one that no guard accepts.
func ParseToken(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A stepper does the steps of one transaction after the other.
type stepper interface {
	begin(t *testing.T)
	step(t *testing.T, kind string, i int, s Step) (word, newer string)
	end(t *testing.T, how string)
}

// Python runs the vectors on a database by Go, by the Python client, and by both in turns; then a holder in Python writes
// late. The module is a DB-API driver, and the keywords are its connect's.
func Python(t *testing.T, d *Database, module string, keywords map[string]any) {
	table, err := guard.NewTable(d.Dialect, "")
	if err != nil {
		t.Fatal(err)
	}
	column, err := guard.NewColumn(d.Dialect, "account", "id", "fence")
	if err != nil {
		t.Fatal(err)
	}
	d.exec(t, "CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL, fence bigint)")
	ours := &goStepper{d: d, table: table, column: column}
	theirs := newPython(t, d, module, keywords)
	theirs.end(t, "rollback") // by now Python has made the table of marks
	id := 0
	for _, tt := range []struct {
		name string
		by   []stepper
	}{{"Go", []stepper{ours}}, {"Python", []stepper{theirs}}, {"in turns", []stepper{ours, theirs}}, {"in turns, Python first", []stepper{theirs, ours}}} {
		t.Run(tt.name, func(t *testing.T) {
			for _, h := range ReadVectors(t).Histories {
				for _, kind := range []string{"table", "column"} {
					id++
					d.exec(t, fmt.Sprintf("INSERT INTO account (id, balance) VALUES (%d, 100)", id))
					for n, transaction := range h.Transactions {
						by := tt.by[n%len(tt.by)]
						by.begin(t)
						for _, s := range transaction.Steps {
							if word, newer := by.step(t, kind, id, s); word != s.Error || s.Newer != "" && newer != s.Newer {
								t.Errorf("%s, %s: %+v answers %q %s", h.Name, kind, s, word, newer)
							}
						}
						by.end(t, transaction.End)
					}
				}
			}
		})
	}
	t.Run("names", func(t *testing.T) {
		for _, name := range ReadVectors(t).Names.Good {
			theirs.ask(t, &request{Do: "raise", Resource: name, Token: "7"})
			theirs.end(t, "commit")
			tx, end := d.begin(t)
			if err := table.Check(t.Context(), tx, name, 7); err != nil {
				t.Errorf("%q: Go checks what Python raised: %v", name, err)
			}
			end(true)
		}
	})
	if d.Dialect != guard.SQLite { // which gives a value the type that it has
		t.Run("columns", func(t *testing.T) {
			for kind, want := range map[string]string{"bigint": "", "double precision": "invalid", "int": map[bool]string{true: "invalid"}[d.Dialect == guard.MySQL]} {
				d.exec(t, "CREATE TABLE typed (id int PRIMARY KEY, fence "+kind+")")
				d.exec(t, "INSERT INTO typed (id) VALUES (1)")
				if word, _ := theirs.step(t, "typed", 1, Step{Do: "raise", Token: "7"}); word != want {
					t.Errorf("%s: a raise answers %q; want %q", kind, word, want)
				}
				theirs.end(t, "rollback")
				d.exec(t, "DROP TABLE typed")
			}
		})
	}
	t.Run("open transaction", func(t *testing.T) {
		for _, kind := range []string{"table", "column"} {
			d.exec(t, "DELETE FROM account WHERE id < 3")
			d.exec(t, "INSERT INTO account (id, balance) VALUES (1, 100)")
			texts := []string{"INSERT INTO account (id, balance) VALUES (2, 100)"}
			if d.Dialect != guard.SQLite { // whose driver begins no transaction for a SELECT
				texts = append(texts, "SELECT balance FROM account WHERE id = 1")
			}
			for _, text := range texts {
				theirs.ask(t, &request{Do: "sql", Text: text})
				if a := theirs.ask(t, &request{Do: "guarded", Kind: kind, Resource: "1", Token: "7"}); a.Error != "invalid" {
					t.Errorf("%s: guarded after %q answers %q; want invalid", kind, text, a.Error)
				}
				if strings.HasPrefix(text, "INSERT") {
					if a := theirs.ask(t, &request{Do: "sql", Text: "SELECT COUNT(*) FROM account WHERE id = 2"}); a.Number != "1" {
						t.Errorf("%s: the uncommitted row is there %s times; want 1", kind, a.Number)
					}
				}
				theirs.end(t, "rollback")
			}
			if a := theirs.ask(t, &request{Do: "guarded", Kind: kind, Resource: "1", Token: "7"}); a.Error != "" {
				t.Errorf("%s: guarded in a new transaction answers %q", kind, a.Error)
			}
		}
	})
	t.Run("autocommit", func(t *testing.T) {
		d.exec(t, "DELETE FROM account WHERE id = 3")
		d.exec(t, "INSERT INTO account (id, balance) VALUES (3, 100)")
		for _, kind := range []string{"table", "column"} {
			theirs.ask(t, &request{Do: "autocommit", Text: "on"})
			for _, tt := range []struct{ before, do, want string }{
				{"", "raise", "invalid"}, {"", "check", "invalid"}, {"", "guarded", "invalid"},
				{"BEGIN", "raise", ""}, {"", "check", ""}, {"COMMIT", "check", "invalid"},
			} {
				if tt.before != "" {
					theirs.ask(t, &request{Do: "sql", Text: tt.before})
				}
				if a := theirs.ask(t, &request{Do: tt.do, Kind: kind, Resource: "3", Token: "7"}); a.Error != tt.want {
					t.Errorf("%s: a %s in autocommit mode after %q answers %q; want %q", kind, tt.do, tt.before, a.Error, tt.want)
				}
			}
			theirs.ask(t, &request{Do: "autocommit", Text: "off"})
		}
	})
	t.Run("late write", func(t *testing.T) {
		for i, kind := range []string{"table", "column"} {
			plain, guarded := 1000+2*i, 1001+2*i
			for _, id := range []int{plain, guarded} {
				d.exec(t, fmt.Sprintf("INSERT INTO account (id, balance) VALUES (%d, 100)", id))
			}
			LateIsRefused(t, theirs.account(t, "", plain), theirs.account(t, kind, guarded), func(ofGuarded bool) int {
				if ofGuarded {
					return d.balance(t, guarded)
				}
				return d.balance(t, plain)
			})
		}
	})
}

// goStepper is package guard.
type goStepper struct {
	d      *Database
	table  *guard.Table
	column *guard.Column
	tx     guard.Tx
	finish func(commit bool)
}

func (g *goStepper) begin(t *testing.T) { g.tx, g.finish = g.d.begin(t) }

func (g *goStepper) end(_ *testing.T, how string) { g.finish(how == "commit") }

func (g *goStepper) step(t *testing.T, kind string, i int, s Step) (word, newer string) {
	token, name := ParseToken(t, s.Token), fmt.Sprint("history/", i)
	var err error
	switch kind + " " + s.Do {
	case "table raise":
		err = g.table.Raise(t.Context(), g.tx, name, token)
	case "table check":
		err = g.table.Check(t.Context(), g.tx, name, token)
	case "column raise":
		err = g.column.Raise(t.Context(), g.tx, i, token)
	case "column check":
		err = g.column.Check(t.Context(), g.tx, i, token)
	}
	if stale, ok := errors.AsType[*guard.StaleError](err); ok {
		newer = strconv.FormatInt(stale.Newer, 10)
	}
	return Word(err), newer
}

// pythonStepper is the guard of the Python client: clients/python/tests/marks.py.
type pythonStepper struct {
	in  io.Writer
	out *bufio.Reader
}

// A request is one to marks.py.
type request struct {
	Do       string `json:"do"`
	Kind     string `json:"kind,omitempty"`
	Resource string `json:"resource,omitempty"`
	Token    string `json:"token,omitempty"`
	Text     string `json:"text,omitempty"`
}

// An answer is one of marks.py. Its error is a word of the vectors, or the text of another error.
type answer struct{ Error, Newer, Number string }

func newPython(t *testing.T, d *Database, module string, keywords map[string]any) *pythonStepper {
	t.Helper()
	text, err := json.Marshal(keywords)
	if err != nil {
		t.Fatal(err)
	}
	dialect := map[guard.Dialect]string{guard.PostgreSQL: "postgres", guard.MySQL: "mysql", guard.SQLite: "sqlite"}[d.Dialect]
	cmd, err := python.Command(context.Background(), filepath.Join("tests", "marks.py"), dialect, module, string(text))
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("marks.py: %v", err)
		}
	})
	return &pythonStepper{in, bufio.NewReader(out)}
}

// ask sends a request and returns its answer.
func (g *pythonStepper) ask(t *testing.T, q *request) (a answer) {
	t.Helper()
	text, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.in.Write(append(text, '\n')); err != nil {
		t.Fatal(err)
	}
	line, err := g.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err != nil {
		t.Fatalf("marks.py answers %s, %v", line, err)
	}
	return a
}

func (g *pythonStepper) begin(*testing.T) {} // DB-API begins a transaction by itself

func (g *pythonStepper) end(t *testing.T, how string) {
	t.Helper()
	if a := g.ask(t, &request{Do: how}); a.Error != "" {
		t.Fatalf("%s: %s", how, a.Error)
	}
}

func (g *pythonStepper) step(t *testing.T, kind string, i int, s Step) (word, newer string) {
	t.Helper()
	name := strconv.Itoa(i)
	if kind == "table" {
		name = "history/" + name
	}
	a := g.ask(t, &request{Do: s.Do, Kind: kind, Resource: name, Token: s.Token})
	return a.Error, a.Newer
}

// account is the balance of a row, which Python reads and writes in a transaction each. Without a kind it has no guard.
func (g *pythonStepper) account(t *testing.T, kind string, id int) Account {
	do := func(token int64, text string) (int, error) {
		how, a := "commit", answer{}
		if kind != "" {
			word, newer := g.step(t, kind, id, Step{Do: "raise", Token: strconv.FormatInt(token, 10)})
			a = answer{Error: word, Newer: newer}
		}
		if a.Error == "" {
			a = g.ask(t, &request{Do: "sql", Text: text})
		}
		var err error
		switch a.Error {
		case "":
		case "stale":
			how, err = "rollback", &guard.StaleError{Token: token}
		default:
			how, err = "rollback", errors.New(a.Error)
		}
		g.end(t, how)
		n := 0
		if err == nil && a.Number != "" {
			n, err = strconv.Atoi(a.Number)
		}
		return n, err
	}
	return Account{
		Read: func(_ context.Context, token int64) (int, error) {
			return do(token, fmt.Sprintf("SELECT balance FROM account WHERE id = %d", id))
		},
		Write: func(_ context.Context, token int64, balance int) error {
			_, err := do(token, fmt.Sprintf("UPDATE account SET balance = %d WHERE id = %d", balance, id))
			return err
		},
	}
}
