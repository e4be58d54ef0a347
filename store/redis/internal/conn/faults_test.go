package conn

import (
	"slices"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
)

const (
	refused = driver.OutcomeRefused
	unknown = driver.OutcomeUnknown
)

// inWords are the faults that the servers of these tests do not show, with a text that has each fault.
var inWords = map[string]struct {
	text    string
	outcome driver.Outcome
	now     bool // the same request may be answered a moment later
}{
	// No server says this here: a script has one key.
	"TRYAGAIN": {"TRYAGAIN Multiple keys request during rehashing of slot", refused, true},
	// The library follows this.
	"ASK": {"ASK 3999 127.0.0.1:6381", refused, true},
	// Redis says this when it has as many connections as it may.
	"max number of clients reached": {"ERR max number of clients reached", refused, true},
	// Redis 5 says this.
	"invalid password": {"ERR invalid password", refused, false},
	// Redis 7.2 says these in a script.
	"ACL failure":            {"ERR ACL failure in script: this user cannot", refused, false},
	"can't run this command": {"ERR The user executing the script can't run this command or subcommand", refused, false},
	"can't access":           {"ERR The user executing the script can't access at least one of the keys", refused, false},
	"has no permissions":     {"-ERR this user has no permissions to run the 'get' command", refused, false},
	"data string too short":  {"ERR data string too short", refused, false},
	// Envoy says these.
	"no upstream host": {"ERR no upstream host", refused, true},
	"upstream":         {"ERR upstream failure", unknown, true},
	// The proxy before a managed Tair says these.
	"NOWRITE":                  {"NOWRITE You can't write against a non-write redis", refused, true},
	"redis tempory failure":    {"ERR redis tempory failure or response big than 500MB", unknown, true},
	"redis temporary failure":  {"ERR redis temporary failure (ErrorCode 7002)", unknown, true},
	"too many pending request": {"ERR request refused, too many pending request, now count 9, beyond threshold 8", refused, true},
	// Twemproxy says these.
	"Connection timed out":     {"ERR Connection timed out", unknown, true},
	"Connection reset by peer": {"ERR Connection reset by peer", unknown, true},
	"Connection refused":       {"ERR Connection refused", refused, true},
}

// onServers are the faults that a server shows in these tests; TestRefusals and TestMisconf use their names.
var onServers = []string{
	"READONLY", "MASTERDOWN", "NOREPLICAS", "OOM", "NOPERM", "WRONGTYPE", "MISCONF", "BUSY", "LOADING",
	"CLUSTERDOWN", "MOVED", "WRONGPASS", "NOAUTH", "DB index is out of range", "",
}

// TestFaultsHaveTests checks that every fault of the table is in one of these lists.
func TestFaultsHaveTests(t *testing.T) {
	c := newConn()
	for _, f := range faults {
		name := f.code + f.contains
		words, ok := inWords[name]
		if !ok {
			if !slices.Contains(onServers, name) {
				t.Errorf("fault %q has no test", name)
			}
			continue
		}
		if got := faultOf(words.text); got.code+got.contains != name {
			t.Errorf("%q is taken for fault %q", words.text, got.code+got.contains)
		}
		err := c.refused(words.text)
		if driver.OutcomeOf(err) != words.outcome || driver.IsUnreachable(err) != words.now {
			t.Errorf("%q = %v: %v, for now %v; want %v, %v",
				words.text, err, driver.OutcomeOf(err), driver.IsUnreachable(err), words.outcome, words.now)
		}
	}
}

// The driver explains the texts that no server here can show.
func TestRefusedTexts(t *testing.T) {
	c := &Conn{secret: []string{"hunter2-canary"}, user: "bob"}
	tests := []struct {
		text, want            string
		rejected, unreachable bool
	}{
		{"TRYAGAIN Multiple keys request during rehashing of slot", "moving this name", true, true},
		{"Error running script (call to f_57e5): @user_script:9: @user_script: 9: -READONLY You can't write", "is a replica here", true, true},
		{"Error running script (call to f_57e5): @user_script:9: @user_script: 9: no number", "refused the request (no number)", true, false},
		{"NOWRITE You can't write against a non-write redis", "accepts no writes at the moment", true, true},
		{"redis temporary failure", "lost the server's answer", false, true},
		{"redis tempory failure or response big than 500MB", "lost the server's answer", false, true},
		{"request refused, too many pending request, now count 9", "too many requests wait", true, true},
		{"MISCONF Redis is configured to save RDB snapshots", "cannot save its data", true, false},
		{"ERR unknown command 'AUTH', with args beginning with: 'hunter2-canary'",
			"refused the request (ERR unknown command 'AUTH')", true, false},
		{"ERR no hunter2-canary here", "refused the request (ERR no … here)", true, false},
		{"WRONGPASS invalid username-password pair", `user "bob" with this password`, true, false},
		{"ERR two\r\nlines script: 1234, on @user_script:1.", "(ERR two lines)", true, false},
	}
	for _, test := range tests {
		err := c.refused(test.text)
		drive.Says(t, err, test.want)
		drive.Marks(t, err, test.rejected, test.unreachable)
	}
}
