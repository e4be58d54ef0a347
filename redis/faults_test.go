package redis

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// inWords are the faults that the servers of these tests are not made to show, in the words that they are known by.
var inWords = map[string]struct {
	text    string
	outcome driver.Outcome
	now     bool // the same request may be answered a moment later
}{
	"TRYAGAIN":                      {"TRYAGAIN Multiple keys request during rehashing of slot", driver.OutcomeRefused, true}, // a script has one key
	"ASK":                           {"ASK 3999 127.0.0.1:6381", driver.OutcomeRefused, true},                                 // the library follows it
	"invalid password":              {"ERR invalid password", driver.OutcomeRefused, false},                                   // Redis 5
	"ACL failure":                   {"ERR ACL failure in script: this user cannot", driver.OutcomeRefused, false},            // Redis 7.2 in a script
	"can't run this command":        {"ERR The user executing the script can't run this command or subcommand", driver.OutcomeRefused, false},
	"can't access":                  {"ERR The user executing the script can't access at least one of the keys", driver.OutcomeRefused, false},
	"has no permissions":            {"-ERR this user has no permissions to run the 'get' command", driver.OutcomeRefused, false},
	"data string too short":         {"ERR data string too short", driver.OutcomeRefused, false},
	"no upstream host":              {"ERR no upstream host", driver.OutcomeRefused, true}, // Envoy
	"upstream":                      {"ERR upstream failure", driver.OutcomeUnknown, true},
	"Connection timed out":          {"ERR Connection timed out", driver.OutcomeUnknown, true}, // twemproxy
	"Connection reset by peer":      {"ERR Connection reset by peer", driver.OutcomeUnknown, true},
	"Connection refused":            {"ERR Connection refused", driver.OutcomeRefused, true},
	"max number of clients reached": {"ERR max number of clients reached", driver.OutcomeRefused, true},
}

// onServers are the faults that a server shows in these tests; TestRefusals and TestMisconf have them by name.
var onServers = []string{
	"READONLY", "MASTERDOWN", "NOREPLICAS", "OOM", "NOPERM", "WRONGTYPE", "MISCONF", "BUSY", "LOADING", "CLUSTERDOWN", "MOVED",
	"WRONGPASS", "NOAUTH", "DB index is out of range", "",
}

// Every fault of the table means in this package what the table says, and has a test that says so too.
func TestFaultsHaveTests(t *testing.T) {
	d, err := newDriver(nil, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		name := f.code + f.phrase
		words, ok := inWords[name]
		if !ok {
			found := false
			for _, s := range onServers {
				found = found || s == name
			}
			if !found {
				t.Errorf("fault %q has no test", name)
			}
			continue
		}
		if got := faultOf(words.text); got.code+got.phrase != name {
			t.Errorf("%q is taken for fault %q", words.text, got.code+got.phrase)
		}
		err := d.refused(words.text)
		if driver.OutcomeOf(err) != words.outcome || driver.IsUnreachable(err) != words.now {
			t.Errorf("%q = %v: %v, for now %v; want %v, %v",
				words.text, err, driver.OutcomeOf(err), driver.IsUnreachable(err), words.outcome, words.now)
		}
	}
}

// A server that cannot save its data, and is told to accept no writes then, is what somebody has to mend.
func TestMisconf(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t, "--save", "3600 1", "--stop-writes-on-bgsave-error", "yes")
	if err := os.MkdirAll(filepath.Join(s.Dir, "dump.rdb", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	d := open(t, "redis://"+s.Addr)
	s.Redis([]string{"SET", "x", "1"})
	var err error
	servertest.Until(t, "the server has failed to save", func() bool {
		c, e := servertest.DialRedis(s.Addr, nil)
		if e != nil {
			t.Fatal(e)
		}
		defer c.Close()
		_, _ = c.Do("BGSAVE")
		_, err = d.Enter(timely(t), claim("name", "id"))
		return err != nil
	})
	says(t, err, "cannot save its data")
	marks(t, err, true, false)
}

// A value of another type where Redlock keeps a ticket is not stile's either, and the error says where it is.
func TestWrongTypeNamesTheKey(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	v := newVoter(open(t, "redis://"+s.Addr), "")
	s.Redis([]string{"HSET", ticketKey("name"), "a", "1"})
	_, err := v.Vote(timely(t), claim("name", "id"), 1)
	if !errors.Is(err, driver.ErrForeign) || !strings.Contains(err.Error(), ticketKey("name")) {
		t.Errorf("vote = %v; want ErrForeign, and the key", err)
	}
}
