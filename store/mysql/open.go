package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/secure"
)

const (
	defaultDialTimeout = 5 * time.Second
	defaultConns       = 8
	idleConn           = 20 * time.Second // less than wait_timeout below
)

func init() {
	for _, scheme := range []string{"mysql", "mariadb"} {
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

// Open connects to the MySQL or MariaDB at an address:
//
//	mysql://user[:password]@host[:3306]/database
//
// Parameters: prefix, dial_timeout, pool_max_conns (how many connections), and tls: false, preferred, true, or
// skip-verify. The default, preferred, encrypts if the server can, but does not check the server's identity.
func Open(ctx context.Context, a *driver.Address) (*Driver, error) {
	p, err := newPlace(a.Param("prefix", ""))
	if err != nil {
		return nil, err
	}
	db, c, addr, err := openPool(a)
	if err != nil {
		return nil, driver.Refused(err)
	}
	return start(ctx, &store{db: db, owned: c, place: p, secret: a.Password, addr: addr})
}

// openPool makes a pool for an address, and returns its connector, and the server's address for messages.
func openPool(a *driver.Address) (db *sql.DB, c *connector, addr string, err error) {
	config, conns, err := poolConfig(a)
	if err != nil {
		return nil, nil, "", err
	}
	plain, err := mysql.NewConnector(config)
	if err != nil {
		return nil, nil, "", errors.New("the address cannot be used: " + secure.Hide(err.Error(), a.Password))
	}
	c = &connector{Connector: plain}
	db = sql.OpenDB(c)
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxIdleTime(idleConn)
	return db, c, config.Addr, nil
}

// poolConfig translates an address.
func poolConfig(a *driver.Address) (config *mysql.Config, conns int, err error) {
	config = mysql.NewConfig()
	hosts := a.HostPorts("127.0.0.1", "3306")
	if len(hosts) > 1 {
		return nil, 0, errors.New("the address must name one server: locks on several have nothing to do with each other")
	}
	if a.Path == "" || strings.Contains(a.Path, "/") {
		return nil, 0, errors.New("the address must name a database: mysql://host/database")
	}
	config.Net, config.Addr, config.User, config.Passwd, config.DBName = "tcp", hosts[0], a.User, a.Password, a.Path
	config.MultiStatements, config.Logger = true, &mysql.NopLogger{}
	config.TLSConfig = a.Param("tls", "preferred")
	switch config.TLSConfig {
	case "false", "preferred", "true", "skip-verify":
	default:
		return nil, 0, errors.New("parameter tls must be false, preferred, true or skip-verify")
	}
	if config.Timeout, err = a.Duration("dial_timeout", defaultDialTimeout); err != nil {
		return nil, 0, err
	}
	size, err := strconv.ParseInt(a.Param("pool_max_conns", strconv.Itoa(defaultConns)), 10, 32)
	if err != nil || size < 1 {
		return nil, 0, errors.New("parameter pool_max_conns must be a number from 1")
	}
	config.DialFunc = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	return config, int(size), a.Done()
}

// A connector makes the connections of the store's own pool.
type connector struct {
	sqldriver.Connector
	made atomic.Int64 // connections
}

// anew returns a pool of new connections, which are not counted. They lead to the present server of the address.
func (c *connector) anew() *sql.DB { return sql.OpenDB(&connector{Connector: c.Connector}) }

// settings make a connection independent of the server's defaults. A client that stands still in the middle of a
// transaction keeps others from a name only until the server ends its connection.
const settings = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; " +
	"SET SESSION autocommit = 1, sql_select_limit = 18446744073709551615, sql_safe_updates = 0, innodb_lock_wait_timeout = 5, wait_timeout = 30 " +
	"/*M!100300 , idle_transaction_timeout = 5 */"

// Connect implements [sqldriver.Connector].
func (c *connector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.(sqldriver.ExecerContext).ExecContext(ctx, settings, nil); err != nil {
		conn.Close()
		return nil, err
	}
	c.made.Add(1)
	return conn, nil
}
