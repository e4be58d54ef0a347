package conn

import (
	"context"
	"slices"

	"github.com/redis/rueidis"
)

// InPlace reports whether the user may change a part of a string, and the expiry of its key. The test commands use a key
// that does not exist, and change nothing. A server that does not answer counts as yes.
func (c *Conn) InPlace(ctx context.Context, key string) bool {
	ctx, cancel := c.briefly(ctx)
	defer cancel()
	b := c.client.B()
	return !slices.ContainsFunc(c.client.DoMulti(ctx,
		b.Getrange().Key(key).Start(0).End(0).Build(),
		b.Setrange().Key(key).Offset(0).Value("").Build(),
		b.Pexpire().Key(key).Milliseconds(MinLease.Milliseconds()).Build(),
	), func(r rueidis.RedisResult) bool { return lacks(r.Error()) })
}

// lackingLua returns which of the commands ARGV[2] and so on the user may not use with channel ARGV[1], or the server
// does not have. Before Redis 7 a server does not say what a user may listen to.
const lackingLua = `local lacking = {}
for i = 2, #ARGV do
  local call = {ARGV[i], ARGV[1]}
  if string.find(ARGV[i], 'PUBLISH') then call[3] = '' end
  local known, may = true, true
  if redis.acl_check_cmd then
    known, may = pcall(redis.acl_check_cmd, unpack(call))
  elseif call[3] then
    may = type(redis.pcall(unpack(call))) == 'number'
  end
  if not (known and may) then lacking[#lacking + 1] = ARGV[i] end
end
return lacking`

// Lacking returns which of some commands that publish or listen the user may not use with a channel, or the server does not
// have. The scripts publish by pcall, so nothing else would show that no message is sent. If a server does not answer,
// Lacking returns none.
func (c *Conn) Lacking(ctx context.Context, channel string, verbs ...string) []string {
	ctx, cancel := c.briefly(ctx)
	defer cancel()
	ask := c.client.B().Eval().Script(lackingLua).Numkeys(0).Arg(channel).Arg(verbs...).Build()
	lacking, _ := c.client.Do(ctx, ask).AsStrSlice() // a failure here shows in each call too
	if !c.allowOOM && slices.Contains(verbs, "SUBSCRIBE") {
		own, release := c.client.Dedicate()
		defer release()
		defer own.Close()
		if forbids(own.Do(ctx, own.B().Subscribe().Channel(channel).Build()).Error()) {
			lacking = append(lacking, "SUBSCRIBE")
		}
	}
	return lacking
}

// briefly bounds a request while the Conn is made. In a cluster the bound is short, since this server may hang and others
// not.
func (c *Conn) briefly(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.Spread() {
		return context.WithTimeout(ctx, othersWithin)
	}
	return context.WithTimeout(ctx, probeWithin)
}
