package conn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// scanAtOnce is how many keys the server reads in one step of a search.
const scanAtOnce = 1000

// Keys returns the keys that match a pattern, on all servers, in order; like is a key of the same kind, by which it finds a
// server. It scans all keys of all primaries at once, in many short steps. A server that does not answer costs one bounded
// wait. If the others say that it is no primary, this does not matter; otherwise the error names it.
func (c *Conn) Keys(ctx context.Context, like, pattern string) ([]string, error) {
	if err := c.connected(ctx, like); err != nil {
		return nil, c.explain(ctx, err)
	}
	nodes := c.client.Nodes()
	roles, silent := askAll(ctx, c, nodes, func(ctx context.Context, _ string, node rueidis.Client) (string, error) {
		return roleOf(node.Do(ctx, node.B().Role().Build()))
	})
	if len(roles) == 0 {
		for _, err := range silent {
			return nil, c.explain(ctx, err)
		}
	}
	maps.DeleteFunc(nodes, func(addr string, _ rueidis.Client) bool { return roles[addr] != "master" })
	var mu sync.Mutex // guards the variables below
	var keys []string
	var failed error
	var all sync.WaitGroup
	for addr, node := range nodes {
		all.Go(func() {
			found, err := c.scan(ctx, node, pattern)
			if err != nil && c.Spread() {
				err = fmt.Errorf("the names that %s keeps are not known: %w", addr, err)
			}
			mu.Lock()
			defer mu.Unlock()
			keys = append(keys, found...)
			if failed == nil {
				failed = err
			}
		})
	}
	all.Wait()
	if failed == nil && len(silent) > 0 {
		failed = c.lacking(ctx, nodes, silent)
	}
	if failed != nil {
		return nil, failed
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil // a key may be seen twice while the server's table grows or shrinks
}

// roleOf returns a server's role. A server that refuses to answer counts as a primary.
func roleOf(r rueidis.RedisResult) (string, error) {
	if _, refused := rueidis.IsRedisErr(r.Error()); refused {
		return "master", nil
	}
	role, err := r.ToArray()
	if err != nil || len(role) == 0 {
		return "", errors.Join(err, r.NonRedisError())
	}
	return role[0].ToString()
}

// scan returns the keys of one server that match a pattern.
func (c *Conn) scan(ctx context.Context, node rueidis.Client, pattern string) (keys []string, _ error) {
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		page, err := c.scanPage(ctx, node, cursor, pattern)
		if err != nil {
			return nil, c.explain(ctx, err)
		}
		driver.Heard(ctx, scanAtOnce)
		keys, cursor = append(keys, page.Elements...), page.Cursor
	}
	return keys, nil
}

func (c *Conn) scanPage(ctx context.Context, node rueidis.Client, cursor uint64, pattern string) (rueidis.ScanEntry, error) {
	bounded, err := c.bound(ctx)
	if err != nil {
		return rueidis.ScanEntry{}, err
	}
	defer bounded.release()
	return node.Do(bounded.Context, node.B().Scan().Cursor(cursor).Match(pattern).Count(scanAtOnce).Build()).AsScanEntry()
}

// lacking returns an error if a silent server is a primary, so that its names are not known. The servers that answered know
// which servers are primaries.
func (c *Conn) lacking(ctx context.Context, asked map[string]rueidis.Client, silent map[string]error) error {
	told, _ := askAll(ctx, c, asked, func(ctx context.Context, addr string, node rueidis.Client) ([]string, error) {
		return primaries(addr, node.Do(ctx, node.B().ClusterSlots().Build()))
	})
	for _, list := range told {
		for _, addr := range list {
			if _, ok := asked[addr]; ok {
				continue
			}
			why := "it was not there before"
			if err := silent[addr]; err != nil {
				why = c.explain(ctx, err).Error()
			}
			return driver.Unreachable(fmt.Errorf("the names that %s keeps are not known: %s", addr, why))
		}
		return nil
	}
	return driver.Unreachable(errors.New("redis did not say which servers the cluster has"))
}

// primaries returns the addresses of the primaries from a server's answer to CLUSTER SLOTS.
func primaries(addr string, r rueidis.RedisResult) (list []string, _ error) {
	parts, err := r.ToArray()
	if err != nil {
		return nil, err
	}
	own, _, _ := net.SplitHostPort(addr)
	for _, part := range parts { // from, to, the primary, its replicas
		const primary = 2
		fields, err := part.ToArray()
		if err != nil || len(fields) <= primary {
			return nil, errors.Join(err, ErrOther)
		}
		at, err := fields[primary].ToArray()
		if err != nil || len(at) < 2 {
			return nil, errors.Join(err, ErrOther)
		}
		host, _ := at[0].ToString()
		port, err := at[1].AsInt64()
		if err != nil {
			return nil, err
		}
		if host == "" { // the address of the answering server
			host = own
		}
		list = append(list, net.JoinHostPort(host, strconv.FormatInt(port, 10)))
	}
	return list, nil
}

var escapes = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// Literal escapes a text for a pattern, so that the pattern matches only the text.
func Literal(text string) string { return escapes.Replace(text) }
