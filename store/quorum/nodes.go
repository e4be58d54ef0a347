package quorum

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
)

// nodes are the nodes of a quorum.
type nodes struct {
	o      *Options
	list   []*node
	ranked bool         // New found members only, so no other store may join them
	ahead  atomic.Int64 // by how many microseconds the most advanced clock of a node is ahead of boottime

	judging sync.Mutex // held while a report is compared with other nodes' reports
}

func newNodes(of []Node, o *Options, own *ids) *nodes {
	all := &nodes{o: o}
	for i, n := range of {
		all.list = append(all.list, &node{
			all: all, ids: own, index: i, name: n.Name, open: n.Open, checking: make(chan struct{}, 1),
		})
		if n.Driver != nil {
			all.list[i].use(n.Driver)
		}
	}
	return all
}

// connect opens all nodes, and checks that they can be a quorum.
func (d *Driver) connect(ctx context.Context, nodes []Node) error {
	if err := countable(nodes); err != nil {
		return driver.Refused(err)
	}
	errs := make([]error, len(nodes))
	var opened sync.WaitGroup
	for i, n := range d.nodes.list {
		opened.Go(func() { errs[i] = n.connect(ctx) })
	}
	opened.Wait()
	up := 0
	for i, n := range d.nodes.list {
		takesPart, err := n.fit(ctx, errs[i])
		if err != nil {
			return err
		}
		if takesPart {
			up++
		}
		if store := n.driver.Load(); store != nil {
			_, member := (*store).(Member)
			d.rule.ranked = d.rule.ranked && member
		}
	}
	d.nodes.ranked = d.rule.ranked
	if up < d.rule.need {
		return driver.Refused(driver.Unreachable(fmt.Errorf("%d of %d nodes take part, and a majority is %d: %w",
			up, len(nodes), d.rule.need, d.rule.first(errs))))
	}
	d.workers.tasks.Go(d.checks)
	return nil
}

// admit returns an error, and closes the store, if the store opens after New and cannot choose tickets with the others.
func (a *nodes) admit(store driver.Driver) error {
	if _, member := store.(Member); member || !a.ranked {
		return nil
	}
	other := errors.New("it is another kind of store than the other nodes, and cannot choose tickets with them")
	return errors.Join(other, store.Close())
}

// countable returns an error if the number or the names of the nodes do not allow a quorum.
func countable(nodes []Node) error {
	switch n := len(nodes); {
	case n < fewest:
		return fmt.Errorf("a quorum needs at least %d nodes, not %d: with fewer, none may be down", fewest, n)
	case n%2 == 0:
		return fmt.Errorf("a quorum needs an odd number of nodes, not %d: the last would only be one more that can fail", n)
	}
	names := map[string]bool{}
	for _, n := range nodes {
		if names[n.Name] {
			return fmt.Errorf("node %s is named twice", n.Name)
		}
		names[n.Name] = true
	}
	return nil
}

// fit reports whether the node takes part, by the outcome of connecting to it. The error says why there can be no quorum
// with this node.
func (n *node) fit(ctx context.Context, err error) (takesPart bool, refused error) {
	_, barred := errors.AsType[*barredError](err)
	switch {
	case err == nil, barred && !n.isTwin():
		return true, nil
	case ctx.Err() != nil:
		return false, driver.Ended(ctx, true)
	case barred:
		return false, driver.Refused(n.says(strip(err)))
	case driver.OutcomeOf(err) == driver.OutcomeRefused && !driver.IsUnreachable(err):
		return false, driver.Refused(n.says(err))
	}
	return false, nil
}

// checks connects and checks the nodes every CheckEvery, until the driver is closed.
func (d *Driver) checks() {
	tick := time.NewTicker(d.o.CheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-d.workers.closed:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(d.workers.base, d.o.CheckEvery)
		d.nodes.connect(ctx)
		cancel()
		d.claims.forgetIDs(time.Now().Add(-2 * d.o.MaxTTL))
	}
}

// connect connects the nodes that are not connected, and asks the members who they are.
func (a *nodes) connect(ctx context.Context) {
	var all sync.WaitGroup
	for _, n := range a.list {
		all.Go(func() { _ = n.connect(ctx) }) // a request for its vote gets the error
	}
	all.Wait()
}

// proposal returns the least ticket to ask for. It is ahead of the clock of every node, so that all can answer with the same
// one.
func (a *nodes) proposal() int64 {
	return a.ahead.Load() + (boottime.Now() + proposeAhead).Microseconds()
}

// proposeAhead is more than the difference between two clients' estimates of one clock.
const proposeAhead = 50 * time.Millisecond

// advance notes the most advanced of the nodes' clocks.
func (a *nodes) advance() {
	var most int64
	for _, n := range a.list {
		n.mu.Lock()
		if n.report != nil {
			most = max(most, n.clock.UnixMicro()-n.at.Microseconds())
		}
		n.mu.Unlock()
	}
	a.ahead.Store(most)
}

// twin returns the name of another node that is the same server, or "".
func (a *nodes) twin(n *node, id string) string {
	for _, other := range a.list {
		if other == n || id == "" {
			continue
		}
		other.mu.Lock()
		same := other.report != nil && other.report.ID == id && other.twin == ""
		other.mu.Unlock()
		if same {
			return other.name
		}
	}
	return ""
}

// order returns the nodes in the order of a name. It is the same for all clients, in whatever order each has configured the
// nodes.
func (a *nodes) order(name string) []*node {
	all := slices.SortedFunc(slices.Values(a.list), func(a, b *node) int { return strings.Compare(a.name, b.name) })
	h := fnv.New32a()
	h.Write([]byte(name))
	first := int(h.Sum32() % uint32(len(all)))
	return append(all[first:], all[:first]...)
}
