//go:build unix

package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stilelock/stile/internal/servertest"
)

// Kinds of faults that an administrator makes with a server's own commands. They are drawn only if they are named, so that
// the seeds of other runs still draw the same faults as before.
const (
	killConnections = "kill connections"
	deleteClaim     = "delete a claim"
	fillMemory      = "fill memory"
)

// noMemory is the error of a call that a server with a full memory refused.
const noMemory = "has no memory left for a new claim"

// An admin makes a fault on a server from a number that was drawn. It returns a function that ends the fault, or nil.
type admin func(s *servertest.Server, drawn uint64) (undo func())

// administered are the faults that only some stores have.
var administered = []fault{
	{killConnections, func(l *lane, d time.Duration) string { return l.administer(killConnections, 0) }},
	{deleteClaim, func(l *lane, d time.Duration) string { return l.administer(deleteClaim, 0) }},
	{fillMemory, func(l *lane, d time.Duration) string { return l.administer(fillMemory, d) }},
}

// administer makes a fault of a kind, if the store has it. It draws the same numbers in any case.
func (l *lane) administer(kind string, d time.Duration) string {
	i, ok := l.member()
	drawn, do := l.random.Uint64(), l.store.admin[kind]
	if !ok || do == nil {
		return ""
	}
	undo := do(l.store.servers[i], drawn)
	if undo != nil {
		l.wait(d)
		undo()
	}
	return fmt.Sprintf("server %d: %s", i, kind)
}

// redisAdmin is for servers of Redis without a replica: with one, a fault would have to find out which server is the
// primary.
var redisAdmin = map[string]admin{
	killConnections: func(s *servertest.Server, _ uint64) func() {
		s.Redis([]string{"CLIENT", "KILL", "TYPE", "normal"}, []string{"CLIENT", "KILL", "TYPE", "pubsub"})
		return nil
	},
	deleteClaim: func(s *servertest.Server, drawn uint64) func() {
		if list := keys(s); len(list) > 0 {
			s.Redis([]string{"DEL", list[drawn%uint64(len(list))]})
		}
		return nil
	},
	fillMemory: func(s *servertest.Server, _ uint64) func() {
		s.Redis([]string{"CONFIG", "SET", "maxmemory", "1"})
		return func() { s.Redis([]string{"CONFIG", "SET", "maxmemory", "0"}) }
	},
}

// only returns the faults of an administrator with a server in place of the one that is drawn.
func only(server *servertest.Server, of map[string]admin) map[string]admin {
	m := map[string]admin{}
	for kind, do := range of {
		m[kind] = func(_ *servertest.Server, drawn uint64) func() { return do(server, drawn) }
	}
	return m
}

var memcachedAdmin = map[string]admin{
	deleteClaim: func(s *servertest.Server, _ uint64) func() {
		s.Memcached("flush_all\r\n")
		return nil
	},
}

var etcdAdmin = map[string]admin{
	deleteClaim: func(s *servertest.Server, drawn uint64) func() {
		ctx, cancel := context.WithTimeout(context.Background(), leeway)
		defer cancel()
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr}, DialTimeout: leeway})
		if err != nil {
			return nil
		}
		defer c.Close()
		found, err := c.Get(ctx, "stile/chaos", clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return nil // a member without a leader deletes nothing
		}
		if n := uint64(len(found.Kvs)); n > 0 {
			_, _ = c.Delete(ctx, string(found.Kvs[drawn%n].Key)) // the same
		}
		return nil
	},
}

var postgresAdmin = map[string]admin{killConnections: func(s *servertest.Server, _ uint64) func() {
	endConnections("pgx", "postgres://postgres@"+s.Addr+"/postgres",
		"SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'", "SELECT pg_terminate_backend(%d)")
	return nil
}}

var mysqlAdmin = map[string]admin{killConnections: func(s *servertest.Server, _ uint64) func() {
	endConnections("mysql", "root@tcp("+s.Addr+")/mysql",
		"SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = 'root'", "KILL %d")
	return nil
}}

// endConnections makes a server end each connection that it lists. Some may have ended by themselves.
func endConnections(driver, source, list, end string) {
	db, err := sql.Open(driver, source)
	if err != nil {
		return
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	ctx, cancel := context.WithTimeout(context.Background(), leeway)
	defer cancel()
	rows, err := db.QueryContext(ctx, list)
	if err != nil {
		return
	}
	var ids []int64
	for rows.Next() {
		var id int64
		if rows.Scan(&id) == nil {
			ids = append(ids, id)
		}
	}
	if rows.Err() != nil || rows.Close() != nil {
		return
	}
	for _, id := range ids {
		_, _ = db.ExecContext(ctx, fmt.Sprintf(end, id)) // it may have ended by itself
	}
}
