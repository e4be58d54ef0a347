package consul

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// A verb is the kind of an operation in a transaction.
type verb string

const (
	lock    verb = "lock"
	unlock  verb = "unlock"
	remove  verb = "delete"
	tree    verb = "get-tree"
	locked  verb = "check-session"
	same    verb = "check-index"
	missing verb = "check-not-exists"
	create  verb = "cas" // without an index: only if the key does not exist
)

// writes reports whether the operation changes the store.
func (v verb) writes() bool { return v == lock || v == unlock || v == remove || v == create }

// answers reports whether the operation has a result of one key. A tree has one result for each key.
func (v verb) answers() bool {
	return v == lock || v == unlock || v == locked || v == same || v == create
}

// A part says which key an operation is about, so that a failed transaction shows the reason of its failure.
type part int

const (
	others  part = iota
	ownKey       // the claim's
	lockKey      // the lock's; an exclusive claim holds it too
)

// An op is one operation of a transaction.
type op struct {
	Verb      verb
	Key       string
	Value     []byte `json:",omitempty"`
	Flags     uint64 `json:",omitempty"`
	Session   string `json:",omitempty"`
	Index     uint64 `json:",omitempty"`
	Namespace string `json:",omitempty"`

	about part
}

// A conflict is a transaction that was not applied, since some of its operations could not be applied.
type conflict struct {
	about   map[part]bool
	indexes map[int]bool
	what    []string
}

func (c *conflict) Error() string {
	return "consul did not apply the transaction: " + strings.Join(c.what, "; ")
}

// says reports whether one of the reasons contains a text.
func (c *conflict) says(text string) bool {
	for _, what := range c.what {
		if strings.Contains(what, text) {
			return true
		}
	}
	return false
}

// isOnlyAbout reports whether only operations on this part failed.
func (c *conflict) isOnlyAbout(p part) bool { return len(c.about) == 1 && c.about[p] }

// delayed reports whether a lock-delay was a reason.
func (c *conflict) delayed() bool { return c.says("lock delay") }

// sessionless reports whether the end of a session was a reason.
func (c *conflict) sessionless() bool { return c.says("invalid session") }

// transact applies all operations or none, and returns the keys that the tree operation found; that operation is the first
// or the last. It returns a conflict and no error if nothing was applied because of the store's contents.
func (a *agent) transact(ctx context.Context, ops []op) ([]pair, *conflict, error) {
	type wrapped struct{ KV op }
	body := make([]wrapped, len(ops))
	results, writes := 0, false
	for i, o := range ops {
		o.Namespace = a.space
		body[i].KV = o
		writes = writes || o.Verb.writes()
		if o.Verb.answers() {
			results++
		}
	}
	query := url.Values{}
	if !writes {
		query.Set("consistent", "")
	}
	r, err := a.call(ctx, request{method: http.MethodPut, path: "txn", query: query, body: body, repeatable: !writes})
	if err != nil {
		return nil, nil, err
	}
	var answer struct {
		Results []struct{ KV pair }
		Errors  []failure
	}
	if err := r.decode(&answer); err != nil {
		return nil, nil, err
	}
	if r.status == http.StatusConflict || len(answer.Errors) > 0 {
		bad, err := a.conflictOf(ops, answer.Errors)
		return nil, bad, err
	}
	if len(answer.Results) < results {
		return nil, nil, fmt.Errorf("consul answered %d of %d results", len(answer.Results), results)
	}
	found := answer.Results[results:]
	if len(ops) > 0 && ops[0].Verb == tree {
		found = answer.Results[:len(answer.Results)-results]
	}
	pairs := make([]pair, 0, len(found))
	for _, f := range found {
		pairs = append(pairs, f.KV)
	}
	a.index.saw(pairs)
	return pairs, nil, nil
}

// A failure is an operation that could not be applied.
type failure struct {
	OpIndex int
	What    string
}

// A denial is the error of a transaction with operations that the token may not do. Consul checks the rights first, so it
// says nothing of the other operations.
type denial struct {
	error
	indexes map[int]bool
}

func (n *denial) Unwrap() error { return n.error }

// conflictOf returns the reasons why a transaction was not applied. A missing right of the token is an error, not a
// conflict: a [*denial].
func (a *agent) conflictOf(ops []op, failures []failure) (*conflict, error) {
	c := &conflict{about: map[part]bool{}, indexes: map[int]bool{}}
	denied := &denial{indexes: map[int]bool{}}
	for _, f := range failures {
		known := f.OpIndex >= 0 && f.OpIndex < len(ops)
		if strings.Contains(f.What, "Permission denied") {
			denied.error = a.refused(http.StatusForbidden, f.What)
			if known {
				denied.indexes[f.OpIndex] = true
			}
			continue
		}
		if known {
			c.about[ops[f.OpIndex].about], c.indexes[f.OpIndex] = true, true
		}
		c.what = append(c.what, f.What)
	}
	if denied.error != nil {
		return nil, denied
	}
	return c, nil
}
