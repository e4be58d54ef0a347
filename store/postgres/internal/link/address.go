package link

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/secure"
)

const (
	defaultDialTimeout = 5 * time.Second
	defaultConns       = 8
	idleConn           = time.Minute
)

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
	config.ConnConfig.RuntimeParams["client_encoding"] = "UTF8" // whatever the database's encoding is
	return config, nil
}

// unquoted returns the text of an error about a configuration, without the URL that it may quote.
func unquoted(err error, password string) string {
	if e, ok := errors.AsType[*pgconn.ParseConfigError](err); ok && e.Unwrap() != nil {
		err = e.Unwrap()
	}
	return fmt.Sprintf("the address cannot be used: %s", secure.Hide(err.Error(), password))
}
