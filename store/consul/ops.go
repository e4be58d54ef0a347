package consul

// maxReclaim is how many claims of an earlier run one transaction removes.
const maxReclaim = 16

// check returns the operation that fails unless the claim's key is there with its session.
func (s *seat) check() []op {
	return []op{{Verb: locked, Key: s.key, Session: s.session, about: ownKey}}
}

// newKey returns the operations that make a claim's key. The key must not exist: locking a key that has lost its session
// gives the claim the former place of the key, which may be ahead of claims that hold by now.
func newKey(q *queue, s *seat) (ops []op) {
	if q != nil {
		for _, p := range q.dead {
			if p.Key == s.key {
				ops = append(ops, op{Verb: same, Key: p.Key, Index: p.ModifyIndex, about: ownKey}, op{Verb: remove, Key: p.Key, about: ownKey})
			}
		}
	}
	return append(ops,
		op{Verb: missing, Key: s.key, about: ownKey},
		op{Verb: lock, Key: s.key, Value: s.text, Flags: claimFlags, Session: s.session, about: ownKey})
}

// takeLockKeyAtOnce returns the operations that take the lock's key together with the claim's key, if no claim but the
// earlier ones is known to be in the queue.
func takeLockKeyAtOnce(q *queue, s *seat, earlier []*entry) []op {
	if q != nil {
		q = q.after(earlier)
	}
	if !s.exclusive || q != nil && len(q.entries) > 0 {
		return nil
	}
	return takeLockKey(q, s)
}

// takeLockKey returns the operations that give the lock's key to the session of a claim at the head, on condition that the
// key is as in the queue or, without a queue, does not exist. It returns none if a client of another kind has the key.
func takeLockKey(q *queue, s *seat) []op {
	takes := acquireLockKey(s, s.session)
	switch {
	case q == nil || q.lockKey == nil:
		return []op{{Verb: missing, Key: takes.Key, about: lockKey}, takes}
	case q.lockKey.Flags != lockFlags:
		return nil
	case q.lockKey.Session == "":
		return []op{{Verb: same, Key: takes.Key, Index: q.lockKey.ModifyIndex, about: lockKey}, takes}
	case q.of(q.lockKey.Session) != nil:
		// A claim that is not at the head took the key before it saw the claims ahead. It does not hold by that key, since
		// stands checks the order of the queue first. So the head may take the key from it.
		return []op{releaseLockKey(q), takes}
	}
	return nil
}

// turn returns the operations by which a claim takes its turn. A shared claim removes the lock's key that its last holder
// left; this succeeds once the lock-delay is over.
func turn(q *queue, s *seat, at int) []op {
	takes := takeLockKey(q, s)
	if len(takes) > 0 && !q.entries[at].exclusive() {
		takes = append(takes, op{Verb: remove, Key: s.folder + lockKeyName, about: lockKey})
	}
	return takes
}

func acquireLockKey(s *seat, session string) op {
	return op{Verb: lock, Key: s.folder + lockKeyName, Value: s.record, Flags: lockFlags, Session: session, about: lockKey}
}

func releaseLockKey(q *queue) op {
	return op{Verb: unlock, Key: q.lockKey.Key, Flags: q.lockKey.Flags, Session: q.lockKey.Session, about: lockKey}
}

// dropLockKey returns the operations that remove the lock's key if the claim has it.
func dropLockKey(s *seat) []op {
	key := s.folder + lockKeyName
	return []op{{Verb: locked, Key: key, Session: s.session, about: lockKey}, {Verb: remove, Key: key, about: lockKey}}
}

// returnLockKey returns the operations that give back the lock's key of a claim that is behind another one. The answer may
// be lost, and the request may arrive when the claim holds by that key. So it does nothing once the claim ahead has gone.
func returnLockKey(q *queue, s *seat, at int) []op {
	before := q.entries[at-1]
	return append([]op{{Verb: same, Key: before.Key, Index: before.ModifyIndex}}, dropLockKey(s)...)
}

// evict returns the operations that remove claims, and the lock's key if one of them has it.
func evict(q *queue, victims []*entry) (ops []op) {
	for _, e := range victims {
		ops = append(ops, op{Verb: locked, Key: e.Key, Session: e.Session}, op{Verb: remove, Key: e.Key})
		if q.hasLockKey(e.Session) {
			ops = append(ops, op{Verb: locked, Key: q.lockKey.Key, Session: e.Session}, op{Verb: remove, Key: q.lockKey.Key})
		}
	}
	return ops
}

// handOver returns the operations that give the keys of a claim to another session, and mark the claim as left.
func handOver(q *queue, s *seat, at int) []op {
	e := *q.entries[at]
	e.Left = true
	text := e.text()
	ops := []op{
		{Verb: unlock, Key: e.Key, Value: text, Flags: claimFlags, Session: e.Session, about: ownKey},
		{Verb: lock, Key: e.Key, Value: text, Flags: claimFlags, Session: s.heir, about: ownKey},
	}
	if q.hasLockKey(s.session) {
		takes := acquireLockKey(s, s.heir)
		takes.Value = q.lockKey.Value // the record may have been amended
		ops = append(ops, releaseLockKey(q), takes)
	}
	return ops
}

// rewrite returns the operations that change the weight and the record of a claim. The lock's key shows the record too. A
// writer that becomes a reader gives the lock's key back in the same transaction.
func rewrite(q *queue, at int, weight int64, record string) []op {
	e := *q.entries[at]
	e.Weight = weight
	e.set(record)
	ops := []op{
		{Verb: same, Key: e.Key, Index: e.ModifyIndex, about: ownKey},
		{Verb: lock, Key: e.Key, Value: e.text(), Flags: claimFlags, Session: e.Session, about: ownKey},
	}
	if !q.hasLockKey(e.Session) {
		return ops
	}
	key := q.lockKey.Key
	ops = append(ops, op{Verb: locked, Key: key, Session: e.Session, about: lockKey})
	if e.exclusive() {
		return append(ops, op{Verb: lock, Key: key, Value: []byte(record), Flags: lockFlags, Session: e.Session, about: lockKey})
	}
	return append(ops, op{Verb: remove, Key: key, about: lockKey})
}
