package etcd

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A txn is a transaction on the keys of one name. It is data, so that the walk of the goals knows what it does.
type txn struct {
	conditions []condition
	then       []op // if all conditions are met
	otherwise  []op
	together   bool // it may go together with those of other names
}

// A condition is on a key, or on all of a name.
type condition struct {
	is       property
	key      string
	revision int64
}

type property int

const (
	isUnchanged property = iota // the key was changed last at the revision
	isMissing                   // the key is not there
	isNewest                    // of the name, no key that is there was made after the revision
)

// compare is the condition as the client library has it.
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

// operation is the op as the client library has it.
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

// compares returns the conditions as the client library has them.
func (t *txn) compares() []clientv3.Cmp {
	all := make([]clientv3.Cmp, len(t.conditions))
	for i := range t.conditions {
		all[i] = t.conditions[i].compare()
	}
	return all
}

// answers are the operations of a transaction of which an answer tells, by whether the conditions were met.
func (t *txn) answers(met bool) []op {
	if met {
		return t.then
	}
	return t.otherwise
}

// evicts is the move that removes claims. One that was kept meanwhile is not to be removed.
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

// enters is the move that puts the claim's key, if the queue is as it was seen. For a claim that waits in any case it does not
// matter who else has come.
func (s *seat) enters(v *view, earlier queue) move {
	put := op{verb: opPut, key: s.key, text: s.text, lease: s.has.life.id}
	// Of all that enter an empty queue at once, one changes it, and the others are told how it is. The same keeps one that
	// tries from a queue that has grown since it was read, and one that reclaims from coming to hold beside a third.
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

// hangs is the move that hangs a claim's key on the leases in hand, and writes the one that the claim lives by into its value,
// unless the key has changed.
func (s *seat) hangs(e *entry, left bool) move {
	n := *e
	n.Left, n.Term, n.Lease = left, min(s.hand.life.term, s.hand.on.term), ""
	if id, _ := e.home(); id != s.hand.life.id {
		n.Lease = hexOf(s.hand.life.id)
	}
	n.lease = s.hand.on.id
	return writes(e, &n, hangsIt)
}

// writes is the move that writes a claim's key anew, unless it has changed.
func writes(e, next *entry, how change) move {
	text, err := next.encode()
	if err != nil {
		return move{end: endRefused, why: err}
	}
	return move{txn: &txn{
		conditions: []condition{{isUnchanged, e.key, e.modified}},
		then:       []op{{verb: opPut, key: e.key, text: text, lease: next.lease}},
	}, changes: how, was: e.modified, next: next}
}

// takes is the move that takes a key out as it was when it was last seen, and the end after it. If the key is another by now, the
// answer has it.
func takes(e *entry, after end) move {
	return move{txn: &txn{
		conditions: []condition{{isUnchanged, e.key, e.modified}},
		then:       []op{{verb: opRemove, key: e.key}},
		otherwise:  []op{{verb: opGet, key: e.key}},
	}, changes: takesIt, was: e.modified, after: after}
}

// Those of each lock and unlock are filled in here, and not by [clientv3.Compare], which copies them two or three times: see
// [value.encode].

// unchanged is the condition that a key is as it was at a revision.
func unchanged(key string, modified int64) clientv3.Cmp {
	c := clientv3.ModRevision(key)
	c.GetCompare().TargetUnion = &pb.Compare_ModRevision{ModRevision: modified}
	return c
}

// missing is the condition that a key is not there. Who puts one that is takes its place in the queue: the create revision stays.
func missing(key string) clientv3.Cmp {
	c := clientv3.CreateRevision(key)
	c.GetCompare().TargetUnion = &pb.Compare_CreateRevision{}
	return c
}

// nobodySince is the condition that no key of a name was made after a revision, and is there still.
func nobodySince(folder string, seen int64) clientv3.Cmp {
	c := clientv3.CreateRevision(folder)
	p := c.GetCompare()
	p.Result, p.RangeEnd = pb.Compare_LESS, []byte(clientv3.GetPrefixRangeEnd(folder))
	p.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: seen + 1}
	return c
}

func wholeQueue(folder string) clientv3.Op { return clientv3.OpGet(folder, clientv3.WithPrefix()) }
