package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/quorum"
	"github.com/stilelock/stile/redis/internal/conn"
)

//go:embed lua/redlock/enter_lone.lua
var redlockEnterLoneLua string

//go:embed lua/redlock/stamp.lua
var redlockStampLua string

//go:embed lua/redlock/raise.lua
var redlockRaiseLua string

// openRedlock opens the quorum of independent servers, each in layout setnx, by an address that names them all:
//
//	redlock://[user:password@]host[:6379],host,host[/database]
//
// or redlocks by TLS, with the parameters of [Open] and max_ttl and timeout, which are those of [quorum.Options].
func openRedlock(ctx context.Context, a *driver.Address) (driver.Driver, error) {
	o := &quorum.Options{Store: "redlock"}
	var err error
	if o.MaxTTL, err = a.Duration("max_ttl", time.Minute); err != nil {
		return nil, err
	}
	if o.Timeout, err = a.Duration("timeout", 0); err != nil {
		return nil, err
	}
	if o.MaxTTL < conn.MinLease || o.MaxTTL > driver.MaxTTL {
		return nil, driver.Refused(fmt.Errorf("parameter max_ttl must be from %v to %v", conn.MinLease, driver.MaxTTL))
	}
	if len(a.Hosts) == 0 {
		return nil, driver.Refused(fmt.Errorf("%s:// needs its hosts, as in %[1]s://h1,h2,h3", a.Scheme))
	}
	var nodes []quorum.Node
	for _, host := range a.HostPorts("", "6379") {
		at := a.At(a.Scheme, host)
		nodes = append(nodes, quorum.Node{Name: host, Open: func(ctx context.Context) (driver.Driver, error) {
			c, prefix, err := openConn(ctx, at)
			if errors.Is(err, conn.ErrReplica) {
				// It is not refused for now alone: each server of a quorum is named, and stands for itself.
				return nil, driver.Refused(conn.ErrReplica)
			}
			if err != nil {
				return nil, err
			}
			return newQuorumMember(ctx, c, prefix), nil
		}})
	}
	return quorum.New(ctx, nodes, o)
}

// A quorumMember is one server of a Redlock: it keeps locks as a [SetNX] does, and agrees with others on tickets.
type quorumMember struct {
	valueLock
	vote, raise *conn.Script
}

var _ quorum.Member = (*quorumMember)(nil)

// newQuorumMember makes a member over a connection, which it owns from now on.
func newQuorumMember(ctx context.Context, c *conn.Conn, prefix string) *quorumMember {
	m := &quorumMember{
		vote: conn.NewScript(redlockEnterLoneLua+valueParseLua+valueEnterLua+redlockStampLua+valueTakeLua, ticketKey),
		// It runs although the memory of the server is full: the claim is there already.
		raise: conn.NewScript(c.EvenIfFull()+valueParseLua+redlockRaiseLua, ticketKey),
	}
	m.init(ctx, c, prefix, layoutSetNX, stringScripts(c), m.vote, m.raise)
	return m
}

// ticketKey is where a server keeps the last ticket of a name: in the same slot as the key of the lock, if that has no
// braces itself. No lock of another library has such a name.
func ticketKey(key string) string { return "stile/ticket/{" + key + "}" }

// Vote is [quorum.Member]. It is one round trip.
func (m *quorumMember) Vote(ctx context.Context, c *driver.Claim, least int64) (driver.Place, error) {
	return m.enter(ctx, c, m.vote, number(least))
}

// Raise is [quorum.Member].
func (m *quorumMember) Raise(ctx context.Context, c *driver.Claim, ticket int64) error {
	_, err := m.conn.Run(ctx, m.raise, m.key(c.Name), c.ID, number(ticket))
	return err
}

// Free is [quorum.Member].
func (m *quorumMember) Free(ctx context.Context, name string) (bool, error) {
	left, _, err := m.conn.Look(ctx, m.key(name))
	return left == conn.NoKey, err
}

// Contact is [quorum.Member].
func (m *quorumMember) Contact() int64 { return m.conn.Connections() }

// Report is [quorum.Member].
func (m *quorumMember) Report(ctx context.Context) (*quorum.Report, error) {
	s, err := m.conn.Server(ctx, ticketKey(""))
	if err != nil {
		return nil, err
	}
	return &quorum.Report{ID: s.ID, Up: s.Up, Clock: s.Clock, Keeps: s.Keeps, Reason: s.Reason}, nil
}
