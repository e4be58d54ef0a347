package conn

import (
	"context"
	"slices"
	"strings"

	"github.com/stilelock/stile/driver"
)

// scanAtOnce is how many keys the server looks at in one step of a search.
const scanAtOnce = 1000

// Keys returns the keys that match a pattern, on any server, in order. Like says where a key like them would be. It looks
// through all keys of all primaries, in many short steps.
func (c *Conn) Keys(ctx context.Context, like, pattern string) ([]string, error) {
	if err := c.connected(ctx, like); err != nil {
		return nil, c.explain(ctx, err)
	}
	var keys []string
	for _, node := range c.client.Nodes() {
		if role, err := node.Do(ctx, node.B().Role().Build()).ToArray(); err == nil && len(role) > 0 {
			if kind, _ := role[0].ToString(); kind != "master" {
				continue
			}
		}
		var cursor uint64
		for more := true; more; more = cursor != 0 {
			step := node.B().Scan().Cursor(cursor).Match(pattern).Count(scanAtOnce).Build()
			page, err := node.Do(ctx, step).AsScanEntry()
			if err != nil {
				return nil, c.explain(ctx, err)
			}
			driver.Heard(ctx, scanAtOnce)
			keys = append(keys, page.Elements...)
			cursor = page.Cursor
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil // a key may be seen twice while the server's table grows or shrinks
}

var escapes = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// Literal makes a text match itself in a pattern.
func Literal(text string) string { return escapes.Replace(text) }
