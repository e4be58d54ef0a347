package redis

import (
	"fmt"
	"github.com/stilelock/stile/internal/awake"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// The driver distinguishes a user who may use only the keys of some names from one who may not change a string in place.
func TestRightsToSomeNames(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	user(s, "~stile/{a*", "resetchannels", "&stile/*", "+@all")
	d := open(t, "redis://locks:secret@"+s.Addr)
	if notes := d.Traits().Remarks(); slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "does not let") }) {
		t.Errorf("the driver remarks %q; want nothing of rights", notes)
	}
	if d.form != usualForm {
		t.Error("queues are kept in the short form")
	}
	for i := range 12 {
		c := claim("a", fmt.Sprint(i))
		enter(t, d, c)
		defer leave(t, d, c)
	}
	_, err := d.Enter(timely(t), claim("b", "id"))
	says(t, err, `does not let user "locks" do this`)
}

// A server without an optional command still serves several clients on a name, and the traits report the loss.
func TestServerWithoutCommands(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		said string
		push bool
	}{
		"SETRANGE":  {"GETRANGE, SETRANGE and PEXPIRE", true},
		"GETRANGE":  {"GETRANGE, SETRANGE and PEXPIRE", true},
		"PEXPIRE":   {"GETRANGE, SETRANGE and PEXPIRE", true},
		"INFO":      {"INFO", true},
		"CONFIG":    {"appendfsync", true},
		"MGET":      {"", true},
		"PUBLISH":   {"PUBLISH", false},
		"SUBSCRIBE": {"SUBSCRIBE", false},
	}
	for command, test := range tests {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			s := servertest.Redis(t, "--appendonly", "yes", "--rename-command", command, "")
			d := open(t, "redis://"+s.Addr)
			traits := d.Traits()
			if notes := strings.Join(traits.Remarks(), "\n"); !strings.Contains(notes, test.said) {
				t.Errorf("the remarks %q do not say %q", notes, test.said)
			}
			pushes(t, d, test.push)
			cs := many("one", 14)
			for _, c := range cs {
				enter(t, d, c)
			}
			for _, c := range cs[1:] {
				leave(t, d, c)
			}
			handsOver(t, d, cs[0])
		})
	}
}

// The remarks report that a user lacks the right to channels, and the user's waiters ask for their turn often.
func TestUserWithoutChannels(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	withoutChannels(t, "redis://locks:secret@"+s.Addr, s)
}

func TestUserWithoutChannelsInCluster(t *testing.T) {
	t.Parallel()
	nodes := servertest.RedisCluster(t)
	withoutChannels(t, "redis+cluster://locks:secret@"+nodes[0].Addr, nodes...)
}

func withoutChannels(t *testing.T, url string, servers ...*servertest.Server) {
	for what, rights := range map[string][]string{
		"PUBLISH":       {"allchannels", "-publish"},
		"SUBSCRIBE":     {"allchannels", "-subscribe"},
		"channels":      {"resetchannels"},
		"all but those": {"resetchannels", "&stile/*"},
	} {
		if len(servers) > 1 && rights[0] == "allchannels" { // where waiters use other commands
			rights = append(rights, strings.Replace(rights[1], "-", "-s", 1))
		}
		for _, s := range servers {
			user(s, append([]string{"reset", "on", ">secret", "~*", "+@all"}, rights...)...)
		}
		d := open(t, url)
		push := what == "all but those"
		pushes(t, d, push)
		notes := d.Traits().Remarks()
		if said := slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "channels") }); said == push {
			t.Errorf("%s: the remarks are %q", what, notes)
		}
		c := claim(what, "holder")
		enter(t, d, c)
		handsOver(t, d, c)
	}
}

// pushes fails unless the traits say correctly whether the server reports changes.
func pushes(t *testing.T, d *Driver, want bool) {
	t.Helper()
	if traits := d.Traits(); (traits.Wake == "push") != want || traits.HearsBreak != want {
		t.Errorf("the traits say wake %q and HearsBreak %v; want push and true: %v", traits.Wake, traits.HearsBreak, want)
	}
}

// handsOver fails unless a waiter soon gets the lock of a claim, whether or not the server reports changes.
func handsOver(t *testing.T, d *Driver, holder *driver.Claim) {
	t.Helper()
	waiter := claim(holder.Name, "waiter")
	enter(t, d, waiter)
	if p, err := d.Await(timely(t), waiter); err != nil || p.Holds {
		t.Errorf("await = %+v, %v; want an early return", p, err)
	}
	enter(t, d, waiter)
	held := awaiting(t, d, waiter)
	const soon = 1500 * time.Millisecond
	over := awake.For(soon)
	leave(t, d, holder)
	if p := <-held; !p.Holds || awake.Over(over) {
		t.Errorf("the waiter's place is %+v, more than %v later: %v; want that it holds soon", p, soon, awake.Over(over))
	}
	leave(t, d, waiter)
}

// A server without free connections is named by the error, also while the client is made.
func TestNoMoreConnections(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t, "--maxclients", "4")
	for range 4 {
		c, err := servertest.DialRedis(s.Addr, nil)
		if err == nil {
			defer c.Close()
			_, err = c.Do("PING")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, layout := range []string{layoutQueue, layoutSetNX} {
		for range 20 {
			_, err := driver.Open(timely(t), "redis://"+s.Addr+"?layout="+layout)
			says(t, err, "redis takes no more connections: raise maxclients")
			if err != nil {
				marks(t, err, true, true)
			}
		}
	}
}
