// Package sqldb keeps locks in a SQL database, through database/sql. It imports no SQL driver: the caller brings the
// *sql.DB. [New] keeps locks in SQLite, for the processes of one host. Most programs use package sqlite, which opens a file
// by its path. [Over] keeps them in any other [Store], such as that of package mysql.
//
// Each verb is one transaction that reads the queue of a name, lets [driver.Queue] decide, and writes the changes. A client
// of the same process notifies a waiter at once that it holds. Clients of other processes wake it if the store is a [Waker];
// otherwise it polls.
package sqldb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Store is a database that keeps queues. Its methods may be called at once; their errors follow [driver.Driver]. A
// [*LostError] says that the claims were lost with the database.
type Store interface {
	// Change does steps, in a transaction in which nobody else changes their queues. It may repeat a step until the step is
	// committed. It may do some of several steps in transactions of their own, so that a queue which another client has
	// locked delays no other; then each failed step gets its own error.
	Change(ctx context.Context, steps []Step) error

	// Read returns the queues that a query selects, in order of their names, and the time by which they are judged.
	Read(ctx context.Context, q *driver.Query) (list []Named, now int64, err error)

	// Poll reads the claims and queues of a request. Nil without an error means that nothing has changed since the last
	// call, or, if the request is fresh, that a wakeup will come as soon as the claims change. After an unreachable error
	// waiters go on waiting; any other error ends their wait. There is one call at a time.
	Poll(ctx context.Context, g *PollRequest) (*PollResult, error)

	// Pause returns the time until the next poll, given the time without news and the number of claims ahead of the claim
	// that is nearest to hold. The number is 0 if it is unknown, or a queue is watched.
	Pause(quiet time.Duration, ahead int) time.Duration

	// Traits is [driver.Driver.Traits].
	Traits() driver.Traits

	// Close ends every call, and frees the store's resources. It is called once.
	Close() error
}

// A Waker is a [Store] that can wake other clients: waiters and, with [driver.Traits.HearsBreak], holders. Without it, and
// when a wakeup is lost, waiters poll, and a holder learns of a break at its next renewal.
type Waker interface {
	Store

	// Wake wakes clients after a change was written: their claims may hold, may have another claim ahead, or are gone. It
	// does not wait until the clients are awake.
	Wake(clients []string)

	// Listen calls woken when somebody wakes the client, at least until ctx ends or some seconds after wanted returns false.
	// It calls recheck when it listens, and after each moment at which a wakeup may have come or been lost. It is called
	// while any claim waits or holds, and again after it has returned.
	Listen(ctx context.Context, client string, wanted func() bool, woken, recheck func())

	// Gone returns the ids of the claims that no longer exist.
	Gone(ctx context.Context, claims []Waiting) (ids []string, err error)
}

// A Step changes one queue.
type Step struct {
	Name string

	// Do changes the queue, at a time no later than the time of the change, in microseconds of the store's clock. New
	// tickets are at least the stamp. Its changes are written even if it refuses its caller.
	Do func(now, stamp int64, q *driver.Queue)

	// Fail gets an error of only this step, when other steps of the same call may have been done.
	Fail func(err error)
}

// A Named is the queue of a name.
type Named struct {
	Name  string
	Queue *driver.Queue
}

// A Driver keeps locks in a [Store]. It implements [driver.Driver], [driver.Lister], [driver.Watcher],
// [driver.Breaker], [driver.Alerter], and [driver.Identifier] if the store does.
type Driver struct {
	store Store
	poll  *poller

	closing sync.Once
	closed  chan struct{}
	failed  error
}

// Over returns a driver that keeps its locks in a store, which is closed with it.
func Over(s Store) *Driver {
	d := &Driver{store: s, closed: make(chan struct{})}
	d.poll = newPoller(d)
	return d
}

// read is the store's Read, unless the driver is closed.
func (d *Driver) read(ctx context.Context, q *driver.Query) (list []Named, now int64, err error) {
	select {
	case <-d.closed:
		return nil, 0, driver.ErrClosed
	default:
		return d.store.Read(ctx, q)
	}
}

// change does steps, and notifies the claims that hold because of them.
func (d *Driver) change(ctx context.Context, steps ...Step) error {
	select {
	case <-d.closed:
		return driver.ErrClosed
	default:
	}
	woken := make([][]driver.Entry, len(steps))
	for i, s := range steps {
		steps[i].Do = func(now, stamp int64, q *driver.Queue) {
			s.Do(now, stamp, q)
			woken[i] = q.Wake(now)
		}
		steps[i].Fail = func(err error) {
			woken[i] = nil // the change for them may not be written
			s.Fail(err)
		}
	}
	if err := d.store.Change(ctx, steps); err != nil {
		return err
	}
	d.wake(d.poll.tell(slices.Concat(woken...)))
	return nil
}

// Woke notifies the waiters of this driver whose claims hold by a change of the store itself. It wakes no other client.
func (d *Driver) Woke(woken ...driver.Entry) { d.poll.tell(woken) }

// wake wakes the clients of claims, if the store can.
func (d *Driver) wake(woken []driver.Entry) {
	if len(woken) == 0 || d.poll.waker == nil {
		return
	}
	var clients []string
	for _, e := range woken {
		if !slices.Contains(clients, e.Client) {
			clients = append(clients, e.Client)
		}
	}
	d.poll.waker.Wake(clients)
}

// Enter is [driver.Driver.Enter].
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (p driver.Place, err error) {
	failed := d.change(ctx, Step{Name: c.Name, Do: func(now, stamp int64, q *driver.Queue) { p, err = q.Enter(now, stamp, c) }})
	if failed != nil {
		return driver.Place{}, failed
	}
	if err == nil && p.Holds {
		d.Holds(c, p.Ticket)
	}
	return p, err
}

// renewBatch is how many claims one transaction renews, so that others get a turn in between. The queue of a name is read
// once in a transaction, however long it is. So a transaction renews renewOfName claims if the last of them have one name.
const (
	renewBatch  = 64
	renewOfName = 1024
)

// batchOf returns the number of claims that the next transaction renews.
func batchOf(cs []*driver.Claim, order []int) int {
	n := min(renewBatch, len(order))
	for n < min(renewOfName, len(order)) && cs[order[n]].Name == cs[order[n-1]].Name {
		n++
	}
	return n
}

// Renew is [driver.Driver.Renew].
func (d *Driver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	answers := make([]driver.Renewal, len(cs))
	order := make([]int, len(cs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(cs[a].Name, cs[b].Name) })
	for len(order) > 0 {
		batch := order[:batchOf(cs, order)]
		order = order[len(batch):]
		steps := make([]Step, len(batch))
		for n, i := range batch {
			a, c := &answers[i], cs[i]
			steps[n] = Step{
				Name: c.Name,
				Do:   func(now, _ int64, q *driver.Queue) { a.TTL, a.Err = q.Renew(now, c) },
				Fail: func(err error) { *a = driver.Renewal{Err: gone(err)} },
			}
		}
		if err := d.change(ctx, steps...); err != nil {
			for _, i := range batch {
				answers[i] = driver.Renewal{Err: gone(err)}
			}
		}
	}
	d.renewed(cs, answers)
	return answers
}

// renewed notes which claims hold, including claims of another process.
func (d *Driver) renewed(cs []*driver.Claim, answers []driver.Renewal) {
	for i, c := range cs {
		switch a := &answers[i]; {
		case a.Err == nil && a.TTL > c.Wait:
			d.Holds(c, c.Ticket)
		case errors.Is(a.Err, driver.ErrGone):
			d.Parts(c.ID)
		}
	}
}

// Leave is [driver.Driver.Leave]. With Keep, it wakes the first waiter, since the claim before it now ends sooner.
func (d *Driver) Leave(ctx context.Context, l *driver.Release) (err error) {
	d.Parts(l.Claim.ID)
	var first []driver.Entry
	failed := d.change(ctx, Step{Name: l.Claim.Name, Do: func(now, _ int64, q *driver.Queue) {
		err, first = q.Leave(now, l), nil
		if i := q.Holding(); l.Keep > 0 && err == nil && i < len(q.Entries) {
			first = append(first, q.Entries[i])
		}
	}})
	if failed != nil {
		return gone(failed)
	}
	d.wake(first)
	return err
}

// Break is [driver.Breaker.Break]. It wakes the client of the claim.
func (d *Driver) Break(ctx context.Context, b *driver.BreakRequest) (s driver.ClaimInfo, err error) {
	if err := b.Removes(); err != nil {
		return driver.ClaimInfo{}, err
	}
	var removed driver.Entry
	failed := d.change(ctx, Step{Name: b.Name, Do: func(now, _ int64, q *driver.Queue) { removed, s, err = q.Remove(now, b.Ticket) }})
	if failed != nil {
		return driver.ClaimInfo{}, failed
	}
	if err == nil {
		d.wake([]driver.Entry{removed})
	}
	return s, err
}

// List is [driver.Lister.List].
func (d *Driver) List(ctx context.Context, query *driver.Query) ([]driver.Listing, error) {
	queues, now, err := d.read(ctx, query)
	if err != nil {
		return nil, err
	}
	var list []driver.Listing
	for _, n := range queues {
		if claims := n.Queue.List(now); len(claims) > 0 {
			list = append(list, driver.Listing{Name: n.Name, Capacity: n.Queue.Capacity, Claims: claims})
		}
	}
	return list, nil
}

// Identity is [driver.Identifier.Identity].
func (d *Driver) Identity(ctx context.Context) (string, error) {
	select {
	case <-d.closed:
		return "", driver.ErrClosed
	default:
	}
	if s, ok := d.store.(driver.Identifier); ok {
		return s.Identity(ctx)
	}
	return "", fmt.Errorf("%w: %s keeps no id", driver.ErrUnsupported, d.Traits().Store)
}

// Traits is [driver.Driver.Traits].
func (d *Driver) Traits() driver.Traits { return d.store.Traits() }

// Close is [driver.Driver.Close].
func (d *Driver) Close() error {
	d.closing.Do(func() {
		close(d.closed)
		d.poll.stop()
		d.failed = d.store.Close()
	})
	return d.failed
}

// A LostError says that the database is not the one that was opened, or that its tables are gone.
type LostError struct{ Reason error }

func (e *LostError) Error() string { return e.Reason.Error() + ": close the client and open it again" }

func (e *LostError) Unwrap() error { return e.Reason }

// gone adds [driver.ErrGone] to an error that says that the database was lost.
func gone(err error) error {
	if _, lost := errors.AsType[*LostError](err); lost {
		return fmt.Errorf("%w: %w", driver.ErrGone, err)
	}
	return err
}
