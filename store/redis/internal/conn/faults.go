package conn

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/secure"
)

// A fault is an error of the server, with its meaning. The scripts write once and last, and the server checks the rights
// before it runs a command, so a request that the server answers with an error was not applied. A proxy between client and
// server cannot promise this.
type fault struct {
	code     string // the answer's first word; "" if any
	contains string // a part of the answer; "" if anything
	says     string // for people; %s is the user
	verdict  verdict
	stale    bool // the connection leads to a server that must get no more requests, so it is given up
}

// A verdict says how long a fault lasts, and whether the request was applied.
type verdict int

const (
	forEver  verdict = iota // refused, and the next request is refused too, until a person does something
	forNow                  // refused, and the same request may be answered a moment later
	notStile                // the key has a value that is not stile's
	doubtful                // from a proxy, which does not know what the server did
)

// faults are searched in this order.
var faults = []fault{
	{contains: "data string too short", verdict: notStile}, // a script found fewer bytes than a queue has
	{code: "WRONGTYPE", verdict: notStile},

	{code: "LOADING", says: "redis is still reading its data", verdict: forNow},
	{code: "BUSY", says: "redis is busy with another's script", verdict: forNow},
	{code: "NOREPLICAS", says: "redis has too few replicas in step to accept writes", verdict: forNow},
	{contains: noRoom, says: "redis takes no more connections: raise maxclients", verdict: forNow},

	{code: "READONLY", says: notPrimary, verdict: forNow, stale: true},
	{code: "MASTERDOWN", says: "redis is a replica that has lost its primary", verdict: forNow, stale: true},

	{code: "CLUSTERDOWN", says: "the redis cluster does not serve this name at the moment", verdict: forNow},
	{code: "TRYAGAIN", says: "the redis cluster is moving this name to another server", verdict: forNow},
	{code: "ASK", says: "the redis cluster is moving this name to another server", verdict: forNow},
	{code: "MOVED", says: "redis is a cluster here: use redis+cluster://"},

	{code: "MISCONF", says: "redis accepts no writes, since it cannot save its data"},
	{code: "OOM", says: "redis has no memory left for a new claim: raise maxmemory, or free some"},

	{code: "WRONGPASS", says: wrongPassword},
	{contains: "invalid password", says: wrongPassword},
	{code: "NOAUTH", says: "redis asks for a password: put it in the URL as redis://user:password@host"},
	{code: "NOPERM", says: noRight},
	{contains: "ACL failure", says: noRight},
	{contains: "has no permissions", says: noRight},
	{contains: "can't run this command", says: noRight},
	{contains: "can't access", says: noRight},
	{contains: "DB index is out of range", says: "redis has no database of this number"},

	{code: "NOWRITE", says: "redis accepts no writes at the moment, as while its provider replaces or locks it", verdict: forNow},
	{contains: "too many pending request", says: "too many requests wait in the proxy before redis", verdict: forNow},
	{contains: "redis temporary failure", says: "the proxy before redis lost the server's answer", verdict: doubtful},
	{contains: "redis tempory failure", says: "the proxy before redis lost the server's answer", verdict: doubtful},
	{contains: "no upstream host", says: "the proxy before redis reaches no server", verdict: forNow},
	{contains: "upstream", says: "the proxy before redis lost the server's answer", verdict: doubtful},
	{contains: "Connection timed out", says: "the proxy before redis lost the server's answer", verdict: doubtful},
	{contains: "Connection reset by peer", says: "the proxy before redis lost the server's answer", verdict: doubtful},
	{contains: "Connection refused", says: "the proxy before redis reaches no server", verdict: forNow},

	{says: "redis refused the request"},
}

const notPrimary = "redis is a replica here, which accepts no writes: a failover is under way, " +
	"or this is not the address of the primary, which redis+sentinel:// finds by itself"

const noRight = "redis does not let %s do this; the package documentation of redis lists the rights that each layout needs"

// faultOf returns the fault that matches a text; there always is one.
func faultOf(text string) *fault {
	text = bare(text)
	code, _, _ := strings.Cut(text, " ")
	for i := range faults {
		f := &faults[i]
		if (f.code == "" || f.code == code) && strings.Contains(text, f.contains) {
			return f
		}
	}
	return &faults[len(faults)-1]
}

const wrongPassword = "redis does not accept %s with this password"

// bare returns the answer to a command in a script. Redis before 7 puts it after the place in the script.
func bare(text string) string {
	if !strings.HasPrefix(text, "Error running script") { // the client library removes the ERR before it
		return text
	}
	_, line, _ := strings.Cut(text, "@user_script: ")
	_, answer, ok := strings.Cut(line, ": ")
	if !ok {
		return text
	}
	return strings.TrimPrefix(answer, "-")
}

// refused explains an error that the server answered.
func (c *Conn) refused(text string) error {
	text = c.presentable(text)
	f := faultOf(text)
	says := f.says
	if says == wrongPassword && c.alone {
		says = "redis does not accept what stands before the @ in the URL as a user without a password: " +
			"a password alone goes after a colon, as in redis://:password@host"
	}
	if strings.Contains(says, "%s") {
		says = fmt.Sprintf(says, c.Who())
	}
	err := fmt.Errorf("%s (%s)", says, text)
	if f.stale {
		c.strays()
	}
	switch f.verdict {
	case forNow:
		return driver.Refused(driver.Unreachable(err))
	case notStile:
		return driver.ErrForeign
	case doubtful:
		return driver.Unreachable(err)
	}
	return driver.Refused(err)
}

// presentable removes secret and useless parts from a server's error.
func (c *Conn) presentable(text string) string {
	text, _, _ = strings.Cut(bare(text), ", with args beginning with") // the arguments may contain a password
	text, _, _ = strings.Cut(text, " script: ")                        // and a digest and a line
	return secure.Hide(strings.Join(strings.Fields(text), " "), c.secret...)
}

// lacks reports whether an error says that the server lacks a command, or that the user may not run it. If the user may run
// it, but not on this key or channel, the error is another one.
func lacks(err error) bool {
	refusal, ok := errors.AsType[*rueidis.RedisError](err)
	if !ok {
		return false
	}
	text := bare(refusal.Error())
	return strings.HasPrefix(text, "unknown command") || strings.HasPrefix(text, "NOPERM") && !strings.Contains(text, " access ")
}

// forbids reports whether an error is a lasting refusal by the server.
func forbids(err error) bool {
	refusal, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && faultOf(refusal.Error()).verdict == forEver
}

// strays gives up all connections: the address now leads elsewhere, or the server there is no longer the primary, and on a
// kept connection this would never show. The next request uses a new connection. The caller's own client keeps its
// connections.
func (c *Conn) strays() {
	if c.dialer != nil && c.client != nil {
		c.Doubt()
		c.dialer.reset()
	}
}

// Who names the user, for people.
func (c *Conn) Who() string {
	if c.user == "" {
		return "the default user"
	}
	return fmt.Sprintf("user %q", c.user)
}
