package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stilelock/stile/driver"
)

const (
	defaultDialTimeout = 5 * time.Second
	defaultConns       = 8
	idleConn           = time.Minute
)

func init() {
	for _, scheme := range []string{"postgres", "postgresql"} {
		driver.Register(scheme, openAddress)
	}
}

func openAddress(ctx context.Context, a *driver.Address) (driver.Driver, error) {
	if word := a.Param("layout", "queue"); word != "queue" {
		return openRows(ctx, a, word)
	}
	switch mode := a.Param("mode", "rows"); mode {
	case "rows":
	case "session":
		return openSession(ctx, a)
	default:
		return nil, driver.Refused(fmt.Errorf("parameter mode: %q is neither rows nor session", mode))
	}
	d, err := Open(ctx, a)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Open connects to the PostgreSQL at an address:
//
//	postgres://[user[:password]@]host[:5432],…[/database]
//
// Of several hosts it uses the one that accepts writes. Parameters: schema, prefix, dial_timeout, pool_max_conns (how
// many connections, besides the one that listens), application_name, and sslmode, sslrootcert, sslcert and sslkey as
// PostgreSQL's own clients have them. What the address leaves out comes from the environment, such as PGPASSWORD and
// PGSSLMODE. The mode and the layout of an address are for [driver.Open].
func Open(ctx context.Context, a *driver.Address) (*Driver, error) {
	p, err := newPlace(a.Param("schema", ""), a.Param("prefix", ""))
	if err != nil {
		return nil, err
	}
	config, err := poolConfig(a)
	if err != nil {
		return nil, driver.Refused(err)
	}
	dialer := &dialer{open: map[*tracked]bool{}}
	config.ConnConfig.DialFunc, config.ConnConfig.OnNotice = dialer.dial, heed
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, driver.Refused(errors.New(unquoted(err, a.Password)))
	}
	return start(ctx, pool, p, dialer)
}

// poolConfig translates an address.
func poolConfig(a *driver.Address) (*pgxpool.Config, error) {
	u := url.URL{Scheme: "postgres", Host: strings.Join(a.HostPorts("127.0.0.1", "5432"), ","), Path: "/" + a.Path}
	if a.User != "" {
		u.User = url.User(a.User)
		if a.Password != "" {
			u.User = url.UserPassword(a.User, a.Password)
		}
	}
	params := url.Values{"application_name": {a.Param("application_name", "stile")}}
	for _, key := range []string{"sslmode", "sslrootcert", "sslcert", "sslkey"} {
		if value := a.Param(key, ""); value != "" {
			params.Set(key, value)
		}
	}
	if len(a.Hosts) > 1 {
		params.Set("target_session_attrs", "read-write")
	}
	timeout, err := a.Duration("dial_timeout", defaultDialTimeout)
	if err != nil {
		return nil, err
	}
	size, err := strconv.ParseInt(a.Param("pool_max_conns", strconv.Itoa(defaultConns)), 10, 32)
	if err != nil || size < 1 {
		return nil, errors.New("parameter pool_max_conns must be a number from 1")
	}
	if err := a.Done(); err != nil {
		return nil, err
	}
	u.RawQuery = params.Encode()
	config, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, errors.New(unquoted(err, a.Password))
	}
	config.MaxConns = int32(size)
	config.MaxConnIdleTime = idleConn
	config.ConnConfig.ConnectTimeout = timeout
	return config, nil
}

// unquoted returns the text of an error about a configuration, without the URL that it may quote.
func unquoted(err error, password string) string {
	if e, ok := errors.AsType[*pgconn.ParseConfigError](err); ok && e.Unwrap() != nil {
		err = e.Unwrap()
	}
	text := err.Error()
	if password != "" {
		text = strings.ReplaceAll(text, password, "…")
	}
	return fmt.Sprintf("the address cannot be used: %s", text)
}
