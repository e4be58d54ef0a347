package conn

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// ordered sends commands whose answers do not name their request, and checks the order of the answers. After the commands it
// sends a PING with a word that no other request has. One answer too many or too few before it is an error of unknown
// outcome. This takes the same round trip. A proxy may answer PING without the word, and a user may lack the right to PING;
// such an answer does not belong to the commands. In a cluster the commands must be for one server.
func (c *Conn) ordered(ctx context.Context, cmds ...rueidis.Completed) ([]rueidis.RedisResult, error) {
	word := rand.Text()
	rs := c.client.DoMulti(ctx, append(cmds, c.client.B().Ping().Message(word).Build())...)
	rs, last := rs[:len(cmds)], rs[len(cmds)]
	c.note(last)
	said, err := last.ToString()
	refusal, refused := rueidis.IsRedisErr(err)
	switch {
	case err == nil && (said == word || said == "PONG"):
	case refused && strings.HasPrefix(refusal.Error(), "NOPERM"):
	case refused && allRefused(rs): // as when the server is loading its data
	case refused || err == nil:
		return nil, c.Mixed()
	default:
		return nil, err
	}
	return rs, nil
}

func allRefused(rs []rueidis.RedisResult) bool {
	return !slices.ContainsFunc(rs, func(r rueidis.RedisResult) bool {
		refusal, ok := rueidis.IsRedisErr(r.Error())
		return !ok || refusal.IsNil()
	})
}

// A Comparison is a command that compares the value of a key. It answers 1, or 0 if the key has another value, or -1 if the
// key does not exist.
type Comparison struct {
	Key, Verb string
	Args      []string
}

// Compare sends commands, and passes on each outcome with the index of its command: [driver.ErrGone] if the key has another
// value.
func (c *Conn) Compare(ctx context.Context, all []Comparison, each func(i int, err error)) {
	for begin := 0; begin < len(all); begin += AtOnce {
		part := all[begin:min(begin+AtOnce, len(all))]
		c.compare(ctx, part, func(i int, err error) { each(begin+i, err) })
	}
}

func (c *Conn) compare(ctx context.Context, part []Comparison, each func(i int, err error)) {
	cmds := make([]rueidis.Completed, len(part))
	for i, q := range part {
		cmds[i] = c.client.B().Arbitrary(q.Verb).Keys(q.Key).Args(q.Args...).Build()
	}
	var rs []rueidis.RedisResult
	var failed error
	err := c.call(ctx, part[0].Key, func(ctx context.Context) { rs, failed = c.ordered(ctx, cmds...) })
	if err == nil {
		err = c.explain(ctx, failed)
	}
	for i, q := range part {
		if err != nil {
			each(i, err)
		} else {
			each(i, c.matched(ctx, rs[i], q.Key))
		}
	}
}

// matched returns the meaning of an answer to a comparison.
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
	case n == 0 || n == -1:
		return driver.ErrGone
	}
	return c.Mixed()
}

// Lacks returns the commands that the server does not have. It sends them without arguments, so that no server executes
// them; a server that has the command answers with another error.
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
