package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/quorum"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

//go:embed lua/redlock/enter_lone.lua
var redlockEnterLoneLua string

//go:embed lua/redlock/stamp.lua
var redlockStampLua string

//go:embed lua/redlock/raise.lua
var redlockRaiseLua string

//go:embed lua/redlock/version.lua
var redlockVersionLua string

//go:embed lua/redlock/amend.lua
var redlockAmendLua string

//go:embed lua/redlock/find.lua
var redlockFindLua string

// openRedlock opens the quorum of independent servers, each in layout setnx, by an address that names them all:
//
//	redlock://[user:password@]host[:6379],host,host[/database]
//
// or redlocks by TLS, with the parameters of [Open] and max_ttl and timeout of [quorum.Options].
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
				// The refusal is permanent: each server of a quorum is named, and no other may take its place.
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
	vote, raise, amend, find *conn.Script
}

var _ quorum.Member = (*quorumMember)(nil)

// newQuorumMember makes a member over a connection, which it owns from now on.
func newQuorumMember(ctx context.Context, c *conn.Conn, prefix string) *quorumMember {
	m := &quorumMember{
		vote: conn.NewScript(redlockEnterLoneLua+valueParseLua+redlockVersionLua+valueEnterLua+redlockStampLua+valueTakeLua, ticketKey),
		// They must run even if the server's memory is full: the claim is there already.
		raise: conn.NewScript(c.EvenIfFull()+valueParseLua+redlockRaiseLua, ticketKey),
		amend: conn.NewScript(c.EvenIfFull()+valueParseLua+redlockVersionLua+redlockAmendLua, nil),
		find:  conn.NewScript(valueParseLua+redlockVersionLua+redlockFindLua, nil),
	}
	scripts := stringScripts(c)
	scripts.look = conn.NewScript(valueParseLua+redlockVersionLua+valueLookLua, nil)
	scripts.remove = conn.NewScript(c.EvenIfFull()+valueParseLua+redlockVersionLua+valueBreakLua, nil)
	m.init(ctx, c, prefix, layoutSetNX, scripts, m.vote, m.raise, m.amend, m.find)
	return m
}

// ticketKey returns the key of a name's last ticket: in the same slot as the key of the lock, if the name has no braces. No
// lock of another library has such a key.
func ticketKey(key string) string { return "stile/ticket/{" + key + "}" }

// Vote is [quorum.Member]. It is one round trip.
func (m *quorumMember) Vote(ctx context.Context, c *driver.Claim, least int64) (driver.Place, error) {
	return m.enter(ctx, kept(c), m.vote, number(least))
}

// kept returns a claim as the server stores it: if its record has a version, the version is after the client. Older clients
// that do not know versions do not read it, and keep the line unchanged.
func kept(c *driver.Claim) *driver.Claim {
	own := *c
	record, version := quorum.CutVersion(c.Record)
	if own.Record = record; version > 0 {
		own.Client += "\t" + number(version)
	}
	return &own
}

// Renew is [driver.Driver]. Claims with an Amend are renewed by a script that knows versions.
func (m *quorumMember) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	if !driver.Amending(cs) {
		return m.valueLock.Renew(ctx, cs)
	}
	var (
		renewals = make([]driver.Renewal, len(cs))
		plain    []*driver.Claim
		changed  []conn.Request
		at       = map[bool][]int{} // the indexes of the answers, by whether the claim is amended
	)
	for i, c := range cs {
		at[c.Amend != nil] = append(at[c.Amend != nil], i)
		if c.Amend == nil {
			plain = append(plain, c)
			continue
		}
		record, version := quorum.CutVersion(c.Amend.Record)
		changed = append(changed, conn.Request{Key: m.key(c.Name), ID: c.ID, Args: []string{
			number(millis(c.TTL)), c.Record, c.Amend.Record, number(version), record,
		}})
	}
	for j, a := range m.valueLock.Renew(ctx, plain) {
		renewals[at[false][j]] = a
	}
	m.conn.RunAll(ctx, m.amend, changed, func(j int, a conn.Answer, err error) {
		const another = 2
		switch {
		case errors.Is(err, driver.ErrForeign):
			err = fmt.Errorf("%w: %w", driver.ErrGone, err) // foreign data is in place of the claim
		case err == nil && a.Number(1) == another:
			err = &driver.RecordError{Have: a.Text(2)}
		}
		renewals[at[true][j]] = driver.Renewal{TTL: a.Span(0), Err: err}
	})
	return renewals
}

// Find is [quorum.Member].
func (m *quorumMember) Find(ctx context.Context, c *driver.Claim) (*driver.Claim, error) {
	a, err := m.conn.Run(ctx, m.find, m.key(c.Name), c.ID, number(c.Ticket))
	if err != nil {
		return nil, err
	}
	owner, err := driver.DecodeName(a.Text(2))
	if err != nil {
		return nil, err
	}
	found := *c
	found.ID, found.Client, found.Owner, found.Record = a.Text(0), a.Text(1), owner, a.Text(3)
	return &found, nil
}

// Raise is [quorum.Member].
func (m *quorumMember) Raise(ctx context.Context, c *driver.Claim, ticket int64) error {
	_, err := m.conn.Run(ctx, m.raise, m.key(c.Name), c.ID, number(ticket))
	return err
}

// Free is [quorum.Member].
func (m *quorumMember) Free(ctx context.Context, name string) (bool, error) {
	left, signal, err := m.conn.Look(ctx, m.key(name))
	m.conn.ReleaseSignal(m.key(name), signal)
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
