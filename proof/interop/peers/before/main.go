//go:build unix

// Before is a client of stile that takes orders on its standard input. The test of this package builds it in this tree and
// in an earlier revision, and lets both lock the same names. So it only uses parts of stile that the earlier revision has.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile"
	_ "github.com/stilelock/stile/store/consul" // the stores that URLs can name
	_ "github.com/stilelock/stile/store/etcd"
	_ "github.com/stilelock/stile/store/memcached"
	_ "github.com/stilelock/stile/store/mysql"
	_ "github.com/stilelock/stile/store/postgres"
	_ "github.com/stilelock/stile/store/redis"
	_ "github.com/stilelock/stile/store/sqlite"
	_ "github.com/stilelock/stile/store/zookeeper"
)

func main() { serve(context.Background(), os.Stdin, os.Stdout) }

// kinds are the locks that an order can name.
var kinds = map[string]func(c *stile.Client, name string) *stile.Lock{
	"alone": (*stile.Client).Mutex,
	"read":  (*stile.Client).Reader,
	"one":   func(c *stile.Client, name string) *stile.Lock { return c.Permit(name, 1, 2) },
	"both":  func(c *stile.Client, name string) *stile.Lock { return c.Permit(name, 2, 2) },
}

// A server has a client of stile for each lock, so that no lock shares turns with another.
type server struct {
	mu     sync.Mutex // guards the fields below
	out    io.Writer
	free   map[string]func() error
	leases map[string]*stile.Lease
}

// serve obeys orders, one line each:
//
//	lock ID KIND TTL URL NAME   held ID TOKEN, when it has the lock
//	try ID KIND TTL URL NAME    held ID TOKEN, or busy ID
//	free ID                     freed ID
//	check ID                    checked ID VERDICT, late if the lease could not be renewed in time
//	show ID KIND TTL URL NAME   shown ID COUNT, of the claims of the name
//
// Each answer may also be "error ID" and a text. It ends with its input.
func serve(ctx context.Context, in io.Reader, out io.Writer) {
	s := &server{out: out, free: map[string]func() error{}, leases: map[string]*stile.Lease{}}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		words := strings.SplitN(lines.Text(), " ", 6)
		go s.obey(ctx, words[0], words[1], words[2:])
	}
}

func (s *server) say(verb, id string, what any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(s.out, verb, id, strings.ReplaceAll(fmt.Sprint(what), "\n", " "))
}

func (s *server) obey(ctx context.Context, verb, id string, args []string) {
	if verb == "free" {
		s.mu.Lock()
		free := s.free[id]
		s.mu.Unlock()
		if err := free(); err != nil {
			s.say("error", id, err)
			return
		}
		s.say("freed", id, "")
		return
	}
	if verb == "check" {
		s.say("checked", id, s.verdict(id))
		return
	}
	if verb == "show" {
		n, err := count(ctx, args[2], args[3])
		if err != nil {
			s.say("error", id, err)
			return
		}
		s.say("shown", id, n)
		return
	}
	lease, err := s.take(ctx, verb == "try", id, args)
	switch {
	case errors.Is(err, stile.ErrHeld):
		s.say("busy", id, "")
	case err != nil:
		s.say("error", id, err)
	default:
		s.say("held", id, number(lease))
	}
}

func (s *server) take(ctx context.Context, try bool, id string, args []string) (*stile.Lease, error) {
	ttl, err := time.ParseDuration(args[1])
	if err != nil {
		return nil, err
	}
	c, err := stile.Open(ctx, args[2], &stile.Options{
		LockOptions: stile.LockOptions{TTL: ttl}, Patience: 30 * time.Second, // on a busy machine
	})
	if err != nil {
		return nil, err
	}
	take := kinds[args[0]](c, args[3]).Lock
	if try {
		take = kinds[args[0]](c, args[3]).TryLock
	}
	lease, err := take(ctx)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free[id] = func() error { return errors.Join(lease.Unlock(), c.Close()) }
	s.leases[id] = lease
	return lease, nil
}

// expired is stile.ReasonExpired, whose name differs between revisions.
const expired = 1

// verdict returns the state of a lease, if there is one.
func (s *server) verdict(id string) string {
	s.mu.Lock()
	lease := s.leases[id]
	s.mu.Unlock()
	if lease == nil {
		return "none"
	}
	err := lease.Check()
	if lost := (*stile.LostError)(nil); errors.As(err, &lost) && lost.Reason == expired {
		return "late"
	}
	return fmt.Sprint(err)
}

// count returns how many clients hold a name, and how many wait for it.
func count(ctx context.Context, url, name string) (int, error) {
	c, err := stile.Open(ctx, url, nil)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	q, err := c.Show(ctx, name)
	if err != nil {
		return 0, err
	}
	return len(q.Claims), nil
}

// number returns the number that identifies a grant. Earlier revisions only have tokens, also on stores without fencing.
func number(lease *stile.Lease) int64 {
	if l, ok := any(lease).(interface{ Ticket() int64 }); ok {
		return l.Ticket()
	}
	return lease.Token()
}
