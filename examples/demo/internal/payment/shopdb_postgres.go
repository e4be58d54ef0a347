//go:build unix

package payment

import (
	"database/sql"
	"errors"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/store/postgres"
)

// openPostgres opens the database of a store's address, without the parameters for locks.
func openPostgres(a *driver.Address) (*Ledger, error) {
	u := url.URL{Scheme: "postgres", Host: strings.Join(a.HostPorts("127.0.0.1", "5432"), ","), Path: "/" + a.Path}
	if a.User != "" {
		u.User = url.User(a.User)
		if a.Password != "" {
			u.User = url.UserPassword(a.User, a.Password)
		}
	}
	params := url.Values{"application_name": {a.Param("application_name", "demo payment")}}
	for _, key := range []string{"sslmode", "sslrootcert", "sslcert", "sslkey"} {
		if value := a.Param(key, ""); value != "" {
			params.Set(key, value)
		}
	}
	if len(a.Hosts) > 1 {
		params.Set("target_session_attrs", "read-write")
	}
	u.RawQuery = params.Encode()
	config, err := pgx.ParseConfig(u.String())
	if err != nil {
		if e, ok := errors.AsType[*pgconn.ParseConfigError](err); ok && e.Unwrap() != nil {
			err = e.Unwrap() // without the URL
		}
		return nil, err
	}
	config.ConnectTimeout = dialTimeout
	return &Ledger{
		DB: stdlib.OpenDB(*config), dialect: guard.PostgreSQL, level: &sql.TxOptions{Isolation: sql.LevelReadCommitted},
		lockTx: postgres.LockSQLTx, refused: postgresRefuses, again: postgresUndid,
	}, nil
}

// postgresUndid reports whether a transaction failed because of others.
func postgresUndid(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.HasPrefix(e.Code, "40")
}

// postgresRefuses reports whether a user, a password, a right or a database is missing.
func postgresRefuses(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(e.Code, "28") || strings.HasPrefix(e.Code, "3D") || strings.HasPrefix(e.Code, "42") ||
		e.Code == "25006")
}
