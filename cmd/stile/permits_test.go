package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stilelock/stile/internal/servertest"
)

// The count of permits is shown and changed, with the reason, and who holds and waits by it is counted.
func TestCountOfPermits(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	u.env = append(u.env, "STILE_URL=zk://"+servertest.ZooKeeper(t).Addr+"?layout=semaphore")
	if r := u.run("permits", "a"); r.code != exitFailed || !strings.Contains(r.err, `"a" has no count of permits: make one with --count`) {
		t.Errorf("permits of a name without a count: %d %q; want 1, and how to make one", r.code, r.err)
	}
	if r := u.run("run", "a", "--of", "0", "--", "true"); r.code != exitUsage || !strings.Contains(r.err, "has no count of permits at /stile/a/permits") {
		t.Errorf("run by a count that is not there: %d %q; want 64, and the node", r.code, r.err)
	}
	want := regexp.MustCompile(`msg="permits changed by hand" name=a was=none permits=2 by=.+ reason="two machines"`)
	if out := u.must("permits", "a", "--count", "2", "--reason", "two machines"); !want.MatchString(out) {
		t.Errorf("the line for the record is %q; want %v", out, want)
	}
	if out := u.must("run", "a", "--of", "0", "--", binary, "permits", "a"); !strings.HasPrefix(out, "2 permits, 1 held, 0 waiting, set by stile on ") ||
		!strings.HasSuffix(out, " (two machines)\n") {
		t.Errorf("permits under run: %q; want 2, one held, and by whom", out)
	}
	if out := u.must("permits", "a", "--count", "0", "--reason", "a pause"); !strings.Contains(out, "was=2 permits=0 ") {
		t.Errorf("the line for the record is %q; want 2 and then 0", out)
	}
	says := regexp.MustCompile(`^stile: .* "a": .*held by nobody: the name's count is 0; it was set by stile on .+, pid \d+ \(a pause\); `)
	for _, wait := range []string{"--try", "--wait=2s"} {
		if r := u.run("run", "a", "--of", "0", wait, "--", "true"); r.code != exitHeld || !says.MatchString(r.err) {
			t.Errorf("run %s without permits: %d %q; want %d and %v", wait, r.code, r.err, exitHeld, says)
		}
	}
	u.must("permits", "a", "--count", "1", "--reason", "one again")
	says = regexp.MustCompile(`held by nobody: the name's count is 1, and 2 permits are asked for; it was set by .+ \(one again\)`)
	if r := u.run("run", "a", "--of", "0", "--permits", "2", "--try", "--", "true"); r.code != exitHeld || !says.MatchString(r.err) {
		t.Errorf("run of 2 permits of 1: %d %q; want %d and %v", r.code, r.err, exitHeld, says)
	}
}
