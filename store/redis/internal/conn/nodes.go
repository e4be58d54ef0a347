package conn

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// othersWithin bounds the wait for the other servers after the first one has answered, since a server may be silent.
const othersWithin = 1500 * time.Millisecond

// askAll sends a request to servers at the same time, and returns the answers and the errors by address.
func askAll[T any](
	ctx context.Context, c *Conn, nodes map[string]rueidis.Client, ask func(context.Context, string, rueidis.Client) (T, error),
) (map[string]T, map[string]error) {
	type answer struct {
		addr string
		what T
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	came := make(chan answer, len(nodes))
	for addr, node := range nodes {
		go func() {
			a := answer{addr: addr}
			own, done := context.WithTimeout(ctx, probeWithin) // a deadline of its own, which identifies the connection
			defer done()
			var within bounded
			if within, a.err = c.bound(own); a.err == nil {
				a.what, a.err = ask(within.Context, addr, node)
				within.release()
			}
			came <- a
		}()
	}
	told, failed := map[string]T{}, map[string]error{}
	for range nodes {
		a := <-came
		switch {
		case a.err != nil:
			failed[a.addr] = a.err
			continue
		case len(told) == 0:
			late := time.AfterFunc(othersWithin, cancel)
			defer late.Stop()
		}
		told[a.addr] = a.what
	}
	return told, failed
}
