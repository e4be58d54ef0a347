package consul

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// A verb is what an operation of a transaction does.
type verb string

const (
	lock    verb = "lock"
	unlock  verb = "unlock"
	remove  verb = "delete"
	tree    verb = "get-tree"
	locked  verb = "check-session"
	same    verb = "check-index"
	missing verb = "check-not-exists"
)

// A part says what an operation is about, so that a transaction that fails tells what was in its way.
type part int

const (
	others part = iota
	own         // the claim's own key
	guard       // the key that an exclusive claim holds
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

// A conflict is a transaction that was not applied, since some of its operations could not be.
type conflict struct {
	about   map[part]bool
	indexes map[int]bool
	what    []string
}

func (c *conflict) Error() string {
	return "consul did not apply the transaction: " + strings.Join(c.what, "; ")
}

// says reports whether one of the reasons has this text.
func (c *conflict) says(text string) bool {
	for _, what := range c.what {
		if strings.Contains(what, text) {
			return true
		}
	}
	return false
}

// delayed reports whether a lock-delay is in the way.
func (c *conflict) delayed() bool { return c.says("lock delay") }

// sessionless reports whether a session that was used is over.
func (c *conflict) sessionless() bool { return c.says("invalid session") }

// transact applies all operations or none, and returns the keys that a last operation of the tree kind found. The error
// is a [*conflict] if none was applied because of what is in the store.
func (d *Driver) transact(ctx context.Context, ops []op) ([]pair, *conflict, error) {
	type wrapped struct{ KV op }
	body := make([]wrapped, len(ops))
	results, writes := 0, false
	for i, o := range ops {
		o.Namespace = d.space
		body[i].KV = o
		switch o.Verb {
		case lock, unlock:
			writes = true
			results++
		case remove:
			writes = true
		case locked, same:
			results++
		case tree, missing:
		}
	}
	query := url.Values{}
	if !writes {
		query.Set("consistent", "")
	}
	r, err := d.call(ctx, request{method: http.MethodPut, path: "txn", query: query, body: body})
	if err != nil {
		return nil, nil, err
	}
	var answer struct {
		Results []struct{ KV pair }
		Errors  []struct {
			OpIndex int
			What    string
		}
	}
	if err := r.decode(&answer); err != nil {
		return nil, nil, err
	}
	if r.status == http.StatusConflict || len(answer.Errors) > 0 {
		c := &conflict{about: map[part]bool{}, indexes: map[int]bool{}}
		for _, e := range answer.Errors {
			if strings.Contains(e.What, "Permission denied") {
				return nil, nil, d.refused(http.StatusForbidden, e.What)
			}
			if e.OpIndex >= 0 && e.OpIndex < len(ops) {
				c.about[ops[e.OpIndex].about], c.indexes[e.OpIndex] = true, true
			}
			c.what = append(c.what, e.What)
		}
		return nil, c, nil
	}
	if len(answer.Results) < results {
		return nil, nil, fmt.Errorf("consul answered %d of %d results", len(answer.Results), results)
	}
	pairs := make([]pair, 0, len(answer.Results)-results)
	for _, found := range answer.Results[results:] {
		pairs = append(pairs, found.KV)
	}
	return pairs, nil, nil
}
