//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stilelock/stile"
)

// A locker is a client of one kind, which takes one lock at a time.
type locker interface {
	lock(ctx context.Context, name string) (token string, err error) // the token is "-" if the library has none
	unlock(ctx context.Context) error
	close()
}

// A trier can also take a lock only if it is free.
type trier interface {
	try(ctx context.Context, name string) (token string, ok bool, err error)
}

// A partner can do what Curator's locks can beside locking: ask for a lock that another client holds, count how often its
// own lock was asked for, and turn a writer into a reader.
type partner interface {
	ask(ctx context.Context, name string) error
	asks() int64
	downgrade(ctx context.Context) error
}

// session is the time after which the stores free a dead client's locks: a session of ZooKeeper or Consul, a lease of etcd,
// the TTL of a key in Redis.
const session = 4 * time.Second

// lockers has a function for each kind that is a library for Go, which opens a client at a server's address, or at a URL
// for stile.
var lockers = map[string]func(ctx context.Context, addr string) (locker, error){
	"go-zookeeper":  openZooKeeper,
	"etcd mutex":    openMutex,
	"etcd election": openElection,
	"v3lock":        openService,
	"consul/api":    openConsul,
	"redsync":       openRedsync,
	"redislock":     openRedislock,
	"rueidis":       openRueidis,
	"rueidislock":   openRueidislock,

	"stile":           openStile((*stile.Client).Mutex),
	"stile writer":    openStile((*stile.Client).Writer),
	"stile reader":    openStile((*stile.Client).Reader),
	"stile candidate": openStile(candidate),
	"stile 1 of 2":    openStile(permits(1)),
	"stile 2 of 2":    openStile(permits(2)),
}

// serve runs a client's process: it takes orders on its standard input, one line each.
//
//	lock NAME   held TOKEN, when it has the lock
//	try NAME    held TOKEN, or busy
//	unlock      free
//	ask NAME    asked, when its holder was asked for it
//	asks        asks N: how often somebody has asked for what this client holds
//	downgrade   held -, when it holds to read what it held to write
//	exit
//
// Each answer may also be "error" and a text.
func serve(ctx context.Context, kind, addr string, in io.Reader, out io.Writer) error {
	open, ok := lockers[kind]
	if !ok {
		return fmt.Errorf("no such kind of client: %q", kind)
	}
	l, err := open(ctx, addr)
	if err != nil {
		return err
	}
	defer l.close()
	fmt.Fprintln(out, "ready")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := make(chan string)
	go func() {
		// When the input has ended, waiting for a lock ends too.
		defer cancel()
		defer close(lines)
		for in := bufio.NewScanner(in); in.Scan(); {
			select {
			case lines <- in.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	for line := range lines {
		verb, name, _ := strings.Cut(line, " ")
		if verb == "exit" {
			break
		}
		answer, err := obey(ctx, l, verb, name)
		if err != nil {
			answer = "error " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Fprintln(out, answer)
	}
	return nil
}

func obey(ctx context.Context, l locker, verb, name string) (string, error) {
	switch verb {
	case "lock":
		token, err := l.lock(ctx, name)
		return "held " + token, err
	case "try":
		t, can := l.(trier)
		if !can {
			return "", fmt.Errorf("this kind of client cannot try")
		}
		token, ok, err := t.try(ctx, name)
		if err == nil && !ok {
			return "busy", nil
		}
		return "held " + token, err
	case "unlock":
		return "free", l.unlock(ctx)
	}
	if p, can := l.(partner); can {
		return oblige(ctx, p, verb, name)
	}
	return "", fmt.Errorf("unknown request %q", verb)
}

// oblige obeys the orders of a partner.
func oblige(ctx context.Context, p partner, verb, name string) (string, error) {
	switch verb {
	case "ask":
		return "asked", p.ask(ctx, name)
	case "asks":
		return fmt.Sprintf("asks %d", p.asks()), nil
	case "downgrade":
		return "held -", p.downgrade(ctx)
	}
	return "", fmt.Errorf("unknown request %q", verb)
}
