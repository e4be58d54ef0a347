package redis

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// An answer without a request ends its connection and nothing else. The client listens, so the library reads in a goroutine
// of its own: a panic there would end the process.
func TestAnswerThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options []string // of the server
		query   string
	}{
		"queue": {}, "setnx": {query: "?layout=setnx"}, "a server without HELLO": {options: []string{"--rename-command", "HELLO", ""}},
	} {
		for _, stray := range []string{"+OK\r\n", ":1\r\n", "*1\r\n+OK\r\n", "-ERR no\r\n"} {
			t.Run(name+" "+stray[:len(stray)-2], func(t *testing.T) {
				t.Parallel()
				s := servertest.Redis(t, c.options...)
				proxy := servertest.NewProxy(t, s.Addr)
				d, err := driver.Open(timely(t), "redis://"+proxy.Addr+c.query)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { d.Close() })
				holder, waiter := claim("name", "holder"), claim("name", "waiter")
				enter(t, d, holder)
				enter(t, d, waiter)
				ctx, stop := context.WithCancel(t.Context())
				listens := make(chan struct{})
				go func() {
					defer close(listens)
					for ctx.Err() == nil {
						d.Await(ctx, waiter) //nolint:errcheck // it is here to listen
					}
				}()
				defer func() { stop(); <-listens }()
				servertest.Until(t, "the client listens", func() bool {
					list, _ := s.Redis([]string{"CLIENT", "LIST"}).(string)
					return strings.Contains(list, " sub=1 ") || strings.Contains(list, " psub=1 ") || strings.Contains(list, "flags=t")
				})
				proxy.Stray(stray)
				servertest.Until(t, "a renewal is answered", func() bool {
					return d.Renew(timely(t), []*driver.Claim{holder})[0].Err == nil
				})
				servertest.Until(t, "the holder leaves", func() bool {
					err := d.Leave(timely(t), &driver.Release{Claim: holder})
					return err == nil || errors.Is(err, driver.ErrGone)
				})
				servertest.Until(t, "the waiter holds", func() bool {
					p, err := d.Enter(timely(t), waiter)
					return err == nil && p.Holds
				})
			})
		}
	}
}
