package postgres

import (
	"errors"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// The answer to another statement decides no request: it refuses no Try, frees no lock, renews no lease and lists no names.
// The client gives up the connection, on which later answers would be another's too.
func TestStrayAnswer(t *testing.T) {
	t.Parallel()
	// What a pooler gives to a connection's next client if it takes the connection for reset too early.
	const discarded, selected = "C\x00\x00\x00\x10DISCARD ALL\x00Z\x00\x00\x00\x05I",
		"T\x00\x00\x00\x1a\x00\x01?\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x17\x00\x04\xff\xff\xff\xff\x00\x00" +
			"D\x00\x00\x00\x0b\x00\x01\x00\x00\x00\x011C\x00\x00\x00\x0dSELECT 1\x00Z\x00\x00\x00\x05I"
	pooler := servertest.PgBouncer(t, server, "transaction")
	for to, target := range map[string]*servertest.Server{"the server": server, "a pooler": pooler} {
		for name, stray := range map[string]string{"DISCARD ALL": discarded, "SELECT 1": selected} {
			t.Run(name+" from "+to, func(t *testing.T) {
				t.Parallel()
				proxy := servertest.NewProxy(t, target.Addr)
				d := open(t, fresh(&servertest.Server{Addr: proxy.Addr}))
				first, c := claim("name", "first"), claim("name", "a")
				c.Try = true
				enter(t, d, first)
				leave(t, d, first)
				// strays makes a call that gets a stray answer, and repeats it. A connection that was idle for a second is looked at
				// first, and another takes its place: then the call gets no stray answer, and is right.
				strays := func(call func() error) {
					t.Helper()
					proxy.Stray(stray)
					err := call()
					if err == nil {
						return
					}
					marks(t, err, false, true)
					if err := call(); err != nil && !errors.Is(err, driver.ErrGone) {
						t.Errorf("the same call, without a stray answer, gives %v", err)
					}
				}
				strays(func() error {
					p, err := d.Enter(timely(t), c)
					if err == nil && !p.Holds {
						t.Errorf("the place is %+v; want a claim that holds", p)
					}
					c.Ticket = p.Ticket
					return err
				})
				strays(func() error { return d.Renew(timely(t), []*driver.Claim{c})[0].Err })
				strays(func() error {
					list, err := d.List(timely(t), &driver.Query{Name: "name"})
					if err == nil && len(list) != 1 {
						t.Errorf("the list is %v; want the claim", list)
					}
					return err
				})
				strays(func() error { return d.Leave(timely(t), &driver.Release{Claim: c}) })
			})
		}
	}
}
