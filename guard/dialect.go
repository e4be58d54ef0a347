package guard

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// A Dialect is a kind of database.
type Dialect int

// The supported databases.
const (
	PostgreSQL Dialect = iota + 1
	MySQL              // and MariaDB
	SQLite             // 3.35 or newer
)

var identifier = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`) })

// quote quotes an identifier, or two with a dot between them, for a statement.
func (d Dialect) quote(name string) (string, error) {
	mark := `"`
	if d == MySQL {
		mark = "`"
	}
	parts := strings.Split(name, ".")
	for i, part := range parts {
		if !identifier().MatchString(part) || len(parts) > 2 {
			return "", fmt.Errorf("guard: %w identifier: %.80q is not made of letters, digits and _, with a schema and a dot before it at most", ErrInvalid, name)
		}
		parts[i] = mark + part + mark
	}
	return strings.Join(parts, "."), nil
}

// quoteAll quotes identifiers in place.
func (d Dialect) quoteAll(names ...*string) (err error) {
	if d < PostgreSQL || d > SQLite {
		return fmt.Errorf("guard: %w dialect: %d", ErrInvalid, int(d))
	}
	for _, name := range names {
		if *name, err = d.quote(*name); err != nil {
			return err
		}
	}
	return nil
}
