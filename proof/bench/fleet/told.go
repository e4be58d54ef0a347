//go:build unix

package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver mysql
	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/internal/servertest"
)

// Versions and counters that the servers report.

const answerWithin = 10 * time.Second

func redisServer(t servertest.TB) *servertest.Server {
	return servertest.Redis(t, "--maxclients", "15000")
}

func redisVersion(p *place) string { return "Redis " + p.servers[0].RedisInfo("redis_version") }

func redisMemory(p *place) (float64, error) {
	return strconv.ParseFloat(p.servers[0].RedisInfo("used_memory"), 64)
}

func memcachedStat(p *place, name string) string {
	for line := range strings.Lines(p.servers[0].Memcached("stats\r\n")) {
		if value, ok := strings.CutPrefix(line, "STAT "+name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// etcdMetrics calls each with every line of the server's metrics for Prometheus.
func etcdMetrics(p *place, each func(line string)) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.servers[0].Addr+"/metrics", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("metrics of etcd: %s", answer.Status)
	}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		each(lines.Text())
	}
	return lines.Err()
}

func etcdVersion(p *place) string {
	version := "etcd"
	// If the server does not report its version, the record has none.
	_ = etcdMetrics(p, func(line string) {
		if label, ok := strings.CutPrefix(line, `etcd_server_version{server_version="`); ok {
			version, _, _ = strings.Cut("etcd "+label, `"`)
		}
	})
	return version
}

// etcdSyncs counts the syncs of the log. The database file has about ten more per second while anything is written.
func etcdSyncs(p *place) (sum float64, err error) {
	err = etcdMetrics(p, func(line string) {
		for _, name := range []string{"etcd_disk_wal_fsync_duration_seconds_count ", "etcd_disk_backend_commit_duration_seconds_count "} {
			if value, ok := strings.CutPrefix(line, name); ok {
				n, _ := strconv.ParseFloat(value, 64)
				sum += n
			}
		}
	})
	return sum, err
}

func zooKeeperVersion(p *place) string {
	for line := range strings.Lines(p.servers[0].ZooKeeperStatus()) {
		if version, ok := strings.CutPrefix(line, "Zookeeper version: "); ok {
			version, _, _ = strings.Cut(version, "-")
			return version
		}
	}
	return ""
}

// zooKeeperSyncs counts the syncs of the log.
func zooKeeperSyncs(p *place) (float64, error) {
	c, err := net.DialTimeout("tcp", p.servers[0].Addr, answerWithin)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(answerWithin))
	if _, err := io.WriteString(c, "mntr"); err != nil {
		return 0, err
	}
	text, err := io.ReadAll(c)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "zk_cnt_fsynctime\t"); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, errors.New("ZooKeeper does not tell how often it syncs")
}

// pgOne returns the text of a statement's answer, or of its error.
func pgOne(p *place, statement string) string {
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	c, err := pgx.Connect(ctx, "postgres://postgres@"+p.servers[0].Addr+"/template1?default_query_exec_mode=simple_protocol")
	if err != nil {
		return err.Error()
	}
	defer c.Close(ctx)
	var value any
	if err := c.QueryRow(ctx, statement).Scan(&value); err != nil {
		return err.Error()
	}
	return fmt.Sprint(value)
}

// mysqlOne returns the last nonempty text of the row of two that a statement returns, or its error.
func mysqlOne(s *servertest.Server, statement string) string {
	db, err := sql.Open("mysql", "root@tcp("+s.Addr+")/mysql")
	if err != nil {
		return err.Error()
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	var first, last string
	if err := db.QueryRowContext(ctx, statement).Scan(&first, &last); err != nil {
		return err.Error()
	}
	if last == "" {
		return first
	}
	return last
}

// mysqlVersion returns the name and version of a server of MySQL or MariaDB.
func mysqlVersion(s *servertest.Server) string {
	version := mysqlOne(s, "SELECT @@version, ''")
	if number, _, ok := strings.Cut(version, "-MariaDB"); ok {
		return "MariaDB " + number
	}
	return "MySQL " + version
}

// mysqlSyncs counts the syncs of the log. MariaDB only counts the syncs of all files together.
func mysqlSyncs(s *servertest.Server) (float64, error) {
	name := "Innodb_os_log_fsyncs"
	if strings.HasPrefix(mysqlVersion(s), "MariaDB") {
		name = "Innodb_data_fsyncs"
	}
	return strconv.ParseFloat(mysqlOne(s, "SHOW GLOBAL STATUS LIKE '"+name+"'"), 64)
}
