//go:build unix

package payment

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/store/mysql"
)

// openMySQL opens the database of a store's address, without the parameters for locks.
func openMySQL(a *driver.Address) (*Ledger, error) {
	config, hosts := mysqldriver.NewConfig(), a.HostPorts("127.0.0.1", "3306")
	if len(hosts) > 1 {
		return nil, errors.New("it must name one server")
	}
	if a.Path == "" || strings.Contains(a.Path, "/") {
		return nil, errors.New("it must name a database, as in mysql://host/database")
	}
	config.Net, config.Addr, config.User, config.Passwd, config.DBName = "tcp", hosts[0], a.User, a.Password, a.Path
	config.Timeout, config.Logger = dialTimeout, &mysqldriver.NopLogger{}
	config.TLSConfig = a.Param("tls", "preferred")
	if !slices.Contains([]string{"false", "preferred", "true", "skip-verify"}, config.TLSConfig) {
		return nil, errors.New("parameter tls must be false, preferred, true or skip-verify")
	}
	c, err := mysqldriver.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return &Ledger{
		DB: sql.OpenDB(c), dialect: guard.MySQL, level: &sql.TxOptions{Isolation: sql.LevelReadCommitted},
		lockTx: mysql.LockTx, prepare: prepareMySQL, refused: mysqlRefuses, again: mysqlUndid,
	}, nil
}

// prepareMySQL makes the tables of a store, since LockTx needs one of them.
func prepareMySQL(ctx context.Context, db *sql.DB) error {
	d, err := mysql.New(ctx, db, nil)
	if err != nil {
		return err
	}
	return d.Close()
}

// mysqlUndid reports whether a transaction failed because of others. If several wait for a name that was never locked
// before, and the first one is rolled back, the server ends some of them with a deadlock.
func mysqlUndid(err error) bool {
	const deadlock = 1213
	e, ok := errors.AsType[*mysqldriver.MySQLError](err)
	return ok && e.Number == deadlock || errors.Is(err, mysql.ErrStale)
}

// mysqlRefuses reports whether a user, a password, a right or a database is missing, or the server accepts no writes.
func mysqlRefuses(err error) bool {
	e, ok := errors.AsType[*mysqldriver.MySQLError](err)
	return ok && slices.Contains([]uint16{1044, 1045, 1049, 1142, 1227, 1290, 1698}, e.Number)
}
