package etcd

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A txn is a transaction on the keys of one name. It is data, so that TestGoals can apply it to a store of its own.
type txn struct {
	conditions []condition
	then       []op // if all conditions are met
	otherwise  []op
	together   bool // it may go together with transactions of other names
}

// A condition is about a key, or about all keys of a name.
type condition struct {
	is       property
	key      string
	revision int64
}

type property int

const (
	isUnchanged property = iota // the key was last changed at the revision
	isMissing                   // the key is not there
	isNewest                    // every key of the name was created at the revision or before
)

// compare returns the condition for the client library.
func (c *condition) compare() clientv3.Cmp {
	switch c.is {
	case isMissing:
		return missing(c.key)
	case isNewest:
		return nobodySince(c.key, c.revision)
	default:
		return unchanged(c.key, c.revision)
	}
}

// An op is one operation of a transaction.
type op struct {
	verb      verb
	key, text string
	lease     int64
}

type verb int

const (
	opPut    verb = iota
	opRemove      // the key
	opGet         // the key
	opList        // the keys of the name
)

// operation returns the op for the client library.
func (o *op) operation() clientv3.Op {
	switch o.verb {
	case opPut:
		return clientv3.OpPut(o.key, o.text, clientv3.WithLease(clientv3.LeaseID(o.lease)))
	case opRemove:
		return clientv3.OpDelete(o.key)
	case opGet:
		return clientv3.OpGet(o.key)
	default:
		return wholeQueue(o.key)
	}
}

func operations(list []op) []clientv3.Op {
	all := make([]clientv3.Op, len(list))
	for i := range list {
		all[i] = list[i].operation()
	}
	return all
}

// compares returns the conditions for the client library.
func (t *txn) compares() []clientv3.Cmp {
	all := make([]clientv3.Cmp, len(t.conditions))
	for i := range t.conditions {
		all[i] = t.conditions[i].compare()
	}
	return all
}

// answers returns the operations that etcd ran, in the order of its responses. met says whether the conditions were met.
func (t *txn) answers(met bool) []op {
	if met {
		return t.then
	}
	return t.otherwise
}

// evicts returns the move that removes claims, if none of them has changed: one may have left meanwhile, and be kept.
func (s *seat) evicts(claims queue) move {
	t := &txn{otherwise: []op{{verb: opList, key: s.folder}}}
	t.conditions, t.then = deletes(claims)
	t.then = append(t.then, op{verb: opList, key: s.folder})
	return move{txn: t, changes: evicts, many: len(claims)}
}

func deletes(claims queue) (conditions []condition, then []op) {
	for i := range claims {
		conditions = append(conditions, condition{isUnchanged, claims[i].key, claims[i].modified})
		then = append(then, op{verb: opRemove, key: claims[i].key})
	}
	return conditions, then
}

// enters returns the move that puts the claim's key. The put has the condition that no key came since the queue was read,
// if the queue was empty, or if the claim only tries or reclaims. Any other claim goes behind whoever has come.
func (s *seat) enters(v *view, earlier queue) move {
	put := op{verb: opPut, key: s.key, text: s.text, lease: s.has.life.id}
	// If many claims enter an empty queue at once, the put of one succeeds, and the others get the new queue. The same
	// condition keeps a try out of a queue that has grown, and a claim that reclaims from holding beside a claim unseen.
	newest := condition{isNewest, s.folder, v.revision()}
	t := &txn{otherwise: []op{{verb: opList, key: s.folder}}}
	if len(v.queue()) == 0 {
		t.conditions, t.then, t.together = []condition{newest}, []op{put}, true
		return move{txn: t, changes: entersIt}
	}
	t.conditions, t.then = deletes(earlier)
	t.conditions = append(t.conditions, condition{isMissing, s.key, 0})
	if s.c.Try || s.c.Reclaim && s.c.Owner != "" {
		t.conditions = append(t.conditions, newest)
	}
	t.then = append(t.then, put, op{verb: opList, key: s.folder})
	return move{txn: t, changes: entersIt, many: len(earlier)}
}

// hangs returns the move that attaches a claim's key to the leases in hand, if the key is unchanged. The value names the
// claim's lease, if the key's name has another one. left marks the claim as left.
func (s *seat) hangs(e *entry, left bool) move {
	n := *e
	n.Left, n.Term, n.Lease = left, min(s.hand.life.term, s.hand.on.term), ""
	if id, _ := e.home(); id != s.hand.life.id {
		n.Lease = hexOf(s.hand.life.id)
	}
	n.lease = s.hand.on.id
	return writes(e, &n, hangsIt)
}

// writes returns the move that rewrites a claim's key, if the key is unchanged.
func writes(e, next *entry, how change) move {
	text, err := next.encode()
	if err != nil {
		return move{end: endRefused, why: err}
	}
	return move{txn: &txn{
		conditions: []condition{{isUnchanged, e.key, e.modified}},
		then:       []op{{verb: opPut, key: e.key, text: text, lease: next.lease}},
	}, changes: how, modified: e.modified, next: next}
}

// takes returns the move that removes a key, if the key is unchanged since it was last seen; else its answer has the present
// key. after is the end once the key is removed.
func takes(e *entry, after end) move {
	return move{txn: &txn{
		conditions: []condition{{isUnchanged, e.key, e.modified}},
		then:       []op{{verb: opRemove, key: e.key}},
		otherwise:  []op{{verb: opGet, key: e.key}},
	}, changes: takesIt, modified: e.modified, after: after}
}

// The conditions of each lock and unlock are filled in here. [clientv3.Compare] would copy them two or three times: see
// [value.encode].

// unchanged returns the condition that a key was last changed at a revision.
func unchanged(key string, modified int64) clientv3.Cmp {
	c := clientv3.ModRevision(key)
	c.GetCompare().TargetUnion = &pb.Compare_ModRevision{ModRevision: modified}
	return c
}

// missing returns the condition that a key is not there. A put onto a present key would take over its place in the queue,
// since the create revision stays.
func missing(key string) clientv3.Cmp {
	c := clientv3.CreateRevision(key)
	c.GetCompare().TargetUnion = &pb.Compare_CreateRevision{}
	return c
}

// nobodySince returns the condition that every present key of a name was created at a revision or before.
func nobodySince(folder string, seen int64) clientv3.Cmp {
	c := clientv3.CreateRevision(folder)
	p := c.GetCompare()
	p.Result, p.RangeEnd = pb.Compare_LESS, []byte(clientv3.GetPrefixRangeEnd(folder))
	p.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: seen + 1}
	return c
}

func wholeQueue(folder string) clientv3.Op { return clientv3.OpGet(folder, clientv3.WithPrefix()) }
