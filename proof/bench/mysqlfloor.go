//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"

	"github.com/go-sql-driver/mysql"
)

// A mysqlKill is the bare limit of passing a name from one process to another by rows. A waiter has a row of its own and
// sleeps in the server. A release deletes a row and ends the next waiter's sleep, in one round trip. A woken waiter checks
// who is first. There is no lease, and no lost wakeup is made up for.
type mysqlKill struct {
	db    *sql.DB
	sleep *sql.Conn // holds the user-level lock that is named after this process
	id    string
}

func openMySQLKill(addr string, _ time.Duration) (library, error) {
	ctx := context.Background()
	db, err := openMySQL(addr)
	if err != nil {
		return nil, err
	}
	l := mysqlKill{db: db, id: rand.Text()}
	_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS bare_kill (name varchar(255), place bigint AUTO_INCREMENT UNIQUE, id varchar(64), PRIMARY KEY (name, id))")
	if err == nil {
		l.sleep, err = db.Conn(ctx)
	}
	var got sql.NullInt64
	if err == nil {
		err = l.sleep.QueryRowContext(ctx, "SELECT GET_LOCK(?, 0)", l.id).Scan(&got)
	}
	if err == nil && got.Int64 != 1 {
		err = errors.New("the process's own lock is taken")
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	return l, nil
}

func (l mysqlKill) mutex(name string) mutex { return mysqlKillMutex{l, name} }

func (l mysqlKill) close() {
	l.sleep.Close()
	l.db.Close()
}

type mysqlKillMutex struct {
	l    mysqlKill
	name string
}

const mysqlFirst = "SELECT id FROM bare_kill WHERE name = ? ORDER BY place LIMIT 1"

// lock sleeps until its row is the first. A sleep that nobody ends lasts a second.
func (m mysqlKillMutex) lock(ctx context.Context) (held, error) {
	var first string
	err := m.l.db.QueryRowContext(ctx, "BEGIN NOT ATOMIC INSERT INTO bare_kill (name, id) VALUES (?, ?); "+mysqlFirst+"; END",
		m.name, m.l.id, m.name).Scan(&first)
	for err == nil && first != m.l.id {
		var rang bool
		err = m.l.sleep.QueryRowContext(ctx, "SELECT SLEEP(1)").Scan(&rang)
		if killed, ok := errors.AsType[*mysql.MySQLError](err); ok && killed.Number == 1317 {
			err = nil
		}
		if err == nil {
			err = m.l.sleep.QueryRowContext(ctx, mysqlFirst, m.name).Scan(&first)
		}
	}
	return m, err
}

// Unlock makes the next process hold.
func (m mysqlKillMutex) Unlock() error {
	_, err := m.l.db.ExecContext(context.Background(), "BEGIN NOT ATOMIC DELETE FROM bare_kill WHERE name = ? AND id = ?; "+
		"SET @next = ("+mysqlFirst+"); "+
		"BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; KILL QUERY IS_USED_LOCK(@next); END; END", m.name, m.l.id, m.name)
	return err
}
