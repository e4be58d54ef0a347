//go:build unix

package leader

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/examples/demo/internal/store"
	"github.com/stilelock/stile/examples/demo/internal/verb"
	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/exit"
)

const (
	candidateName = "candidate"

	plainFile   = "plain"   // takes every write
	guardedFile = "guarded" // refuses a token below one that it was shown

	governing = 120 * time.Millisecond // at most, between two reads of a leader
)

// A candidate's reports, beside demo.DidBegin, demo.DidAsk, demo.DidFail and demo.DidEnd.
const (
	didLead  = "leads"
	didWrite = "wrote" // both files; a text means that the guard refused its file
	didCease = "over"  // its term is over, and it knows that
)

// A candidate is a process of the demo of leaders. While it leads, it adds one to the number in a file, again and again,
// and asks before each write.
type candidate struct {
	dir     string
	guarded bool          // there is a guarded file beside the plain one
	orders  <-chan string // closed when the demo has ended
}

// Candidate has the arguments NUMBER, NAME, DIR, TTL and whether there is a guard.
var Candidate = verb.Role{Name: candidateName, Count: 5, Run: beginCandidate}

func beginCandidate(ctx context.Context, args []string) error {
	ttl, err := time.ParseDuration(args[3])
	if err != nil {
		return exit.Usage("TTL %q: %w", args[3], err)
	}
	client, err := store.Locks(ctx, ttl)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &candidate{dir: args[2], guarded: args[4] == "true", orders: demo.Orders(cancel)}
	if err := (&demo.Notice{What: demo.DidBegin}).Send(); err != nil {
		return err
	}
	return c.stand(ctx, client.Candidate(args[1], "candidate "+args[0]))
}

// stand campaigns and leads, term after term, until the demo ends.
func (c *candidate) stand(ctx context.Context, lock *stile.Lock) error {
	if _, ok := <-c.orders; !ok {
		return nil
	}
	for ctx.Err() == nil {
		err := lock.Do(ctx, c.term)
		if err != nil && !errors.Is(err, stile.ErrLost) && !errors.Is(err, guard.ErrStale) && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// term leads until the term is over.
func (c *candidate) term(ctx context.Context) error {
	token := stile.FromContext(ctx).Ticket() // names the term; in a store with tokens it is the token
	if err := (&demo.Notice{What: didLead, Token: token}).Send(); err != nil {
		return err
	}
	told := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { // at once, whatever the leader does
		defer close(told)
		_ = (&demo.Notice{What: didCease, Token: token}).Send()
	})
	defer func() {
		if !stop() {
			<-told
		}
	}()
	var file *guard.File
	if c.guarded {
		var err error
		if file, err = guard.RaiseFile(ctx, filepath.Join(c.dir, guardedFile), token, nil); err != nil {
			return err
		}
	}
	for {
		if err := c.round(ctx, token, file); err != nil {
			return err
		}
	}
}

// round reads, asks and writes. Faults hit the process between the read and the write.
func (c *candidate) round(ctx context.Context, token int64, file *guard.File) error {
	plain, guarded, err := c.read(ctx, file)
	if err != nil {
		return err
	}
	time.Sleep(rand.N(governing))
	if ctx.Err() != nil { // the last check of the lease
		return context.Cause(ctx)
	}
	if err := (&demo.Notice{What: demo.DidAsk, Token: token}).Send(); err != nil {
		return err
	}
	if _, ok := <-c.orders; !ok {
		return demo.ErrEnded
	}
	// From here on nothing stops the write, whatever happens to the lease.
	n := &demo.Notice{What: didWrite, Token: token}
	if err := demo.Patch(filepath.Join(c.dir, plainFile), demo.CountText(plain+1)); err != nil {
		return err
	}
	if file != nil {
		err := file.Write(context.WithoutCancel(ctx), []byte(demo.CountText(guarded+1)))
		switch {
		case errors.Is(err, guard.ErrStale):
			n.Text = strings.TrimPrefix(strings.ReplaceAll(err.Error(), c.dir+string(filepath.Separator), ""), "guard: ")
		case err != nil:
			return err
		}
	}
	if err := n.Send(); err != nil {
		return err
	}
	if _, ok := <-c.orders; !ok {
		return demo.ErrEnded
	}
	return context.Cause(ctx)
}

// read returns the numbers in both files.
func (c *candidate) read(ctx context.Context, file *guard.File) (plain, guarded int, err error) {
	if plain, err = readCount(c.dir, plainFile); err != nil || file == nil {
		return plain, 0, err
	}
	text, err := file.Read(ctx)
	if err != nil {
		return 0, 0, err
	}
	guarded, err = demo.CountOf(string(text))
	return plain, guarded, err
}

func readCount(dir, file string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, err
	}
	return demo.CountOf(string(text))
}
