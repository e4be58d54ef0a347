package conn

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// A Comparison is a command that compares the value of a key, and answers 1, or 0 if the key has another, or -1 if the key
// is not there.
type Comparison struct {
	Key, Verb string
	Args      []string
}

// Compare sends commands, and hands each outcome over with the index of its command: [driver.ErrGone] if the key has not
// the value.
func (c *Conn) Compare(ctx context.Context, all []Comparison, each func(i int, err error)) {
	for begin := 0; begin < len(all); begin += AtOnce {
		part := all[begin:min(begin+AtOnce, len(all))]
		c.compare(ctx, part, func(i int, err error) { each(begin+i, err) })
	}
}

func (c *Conn) compare(ctx context.Context, part []Comparison, each func(i int, err error)) {
	err := c.connected(ctx, part[0].Key)
	var bounded bounded
	if err == nil {
		bounded, err = c.bound(ctx)
	}
	if err != nil {
		for i := range part {
			each(i, c.explain(ctx, err))
		}
		return
	}
	defer bounded.release()
	cmds := make([]rueidis.Completed, len(part))
	for i, q := range part {
		cmds[i] = c.client.B().Arbitrary(q.Verb).Keys(q.Key).Args(q.Args...).Build()
	}
	for i, r := range c.client.DoMulti(bounded.Context, cmds...) {
		each(i, c.matched(ctx, r, part[i].Key))
	}
}

// matched says what an answer to a comparison means.
func (c *Conn) matched(ctx context.Context, r rueidis.RedisResult, key string) error {
	c.note(r)
	if wrongType(r) {
		return fmt.Errorf("%w: key %q is not a string", driver.ErrForeign, key)
	}
	n, err := r.AsInt64()
	switch {
	case err != nil:
		return c.explain(ctx, err)
	case n == 1:
		return nil
	}
	return driver.ErrGone
}

// Lacks returns which of some commands the server does not have. They are asked for without arguments, which no server
// acts on; whoever has the command says so.
func (c *Conn) Lacks(ctx context.Context, commands ...string) (missing []string, err error) {
	for _, command := range commands {
		refusal, ok := rueidis.IsRedisErr(c.client.Do(ctx, c.client.B().Arbitrary(command).Build()).Error())
		switch {
		case ok && strings.Contains(refusal.Error(), "unknown command"):
			missing = append(missing, command)
		case ok && strings.Contains(refusal.Error(), "wrong number of arguments"):
		case ok:
			return nil, c.refused(refusal.Error())
		default:
			return nil, driver.Unreachable(fmt.Errorf("the server did not say whether it has command %s", command))
		}
	}
	return missing, nil
}
