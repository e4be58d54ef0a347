package guard_test

import (
	"testing"

	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/internal/guardtest"
)

// Guards in other languages are held to these answers.
func TestVectors(t *testing.T) {
	v := guardtest.ReadVectors(t)
	wants := func(about any, err error, want string) {
		t.Helper()
		if got := guardtest.Word(err); got != want {
			t.Errorf("%+v: %q, %v; want %q", about, got, err, want)
		}
	}
	for _, name := range v.Names.Good {
		wants(name, guard.Valid(name, 1), "")
	}
	for _, name := range v.Names.Bad {
		wants(name, guard.Valid(name, 1), "invalid")
	}
	for _, tt := range v.Tokens {
		n, err := guard.ParseToken(tt.Text)
		wants(tt, err, tt.Error)
		if err == nil && guard.FormatToken(n) != tt.Token {
			t.Errorf("%+v: the token is %d", tt, n)
		}
	}
	for _, tt := range v.Judge {
		wants(tt, guard.Judge("a", guardtest.ParseToken(t, tt.Token), guardtest.ParseToken(t, tt.Mark)), tt.Error)
	}
	dialects := map[string]guard.Dialect{"postgres": guard.PostgreSQL, "mysql": guard.MySQL, "sqlite": guard.SQLite}
	if len(v.Schemas) != len(dialects) {
		t.Errorf("schemas of %d databases; want %d", len(v.Schemas), len(dialects))
	}
	for database, d := range dialects {
		for _, name := range v.Identifiers.Good {
			_, err := guard.NewTable(d, name)
			wants(name, err, "")
		}
		for _, name := range v.Identifiers.Bad {
			if name == "" {
				continue // the default of Go
			}
			_, err := guard.NewTable(d, name)
			wants(name, err, "invalid")
		}
		for name, want := range v.Schemas[database] {
			if table, err := guard.NewTable(d, name); err != nil || table.Schema() != want {
				t.Errorf("%s, %s: the schema is %s, %v; want %s", database, name, table.Schema(), err, want)
			}
		}
	}
}
