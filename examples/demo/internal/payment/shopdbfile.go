//go:build unix

package payment

import (
	"database/sql"
	"net/url"
	"path/filepath"

	"github.com/stilelock/stile/guard"
)

// openFile opens an SQLite file of the demo.
func openFile(path string) (*Ledger, error) {
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: url.Values{
		// The file does not outlive the demo, so it need not reach the disk.
		"_pragma": {"busy_timeout(20000)", "synchronous(off)"}, "_txlock": {"immediate"},
	}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	return &Ledger{DB: db, dialect: guard.SQLite}, nil
}
