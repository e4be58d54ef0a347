package main

import (
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

var (
	// pageBlock is a block of a page: what a shell runs, or what it prints then.
	pageBlock = regexp.MustCompile("(?ms)^```(sh|json)\n(.*?)^```$")
	ofOneRun  = regexp.MustCompile(`"(handle|host|request)":"[^"]*"|[0-9]+`)
)

// A stranger who pastes what a page says, into one shell, sees what the page shows, on SQLite and in memory.
func TestPagesOfCurl(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	m, url := u.serve()
	u.pastes("../../docs/serve/start.md", "\n## Take a lock with curl\n", url)
	u.pastes("../../docs/serve/http.md", "\n## Take the lock\n", url)
	// The token is the one that every other program sees.
	out, err := u.command("curl", "-sS", "-X", "PUT", strings.Replace(url, "stile", "http", 1)+"/v1/locks/a").Output()
	if claims := u.show("a").Claims; err != nil || len(claims) != 1 || !strings.Contains(string(out), `"token":"`+claims[0].Ticket+`"`) {
		t.Errorf("curl gets %s, %v, and stile show says %+v; want one token", out, err, claims)
	}
	if r := u.run("break", "a", "--reason", "a test", "--yes"); r.code != 0 || !strings.Contains(r.err, "cannot be notified, and learns at its next renewal") {
		t.Errorf("stile break of curl's claim = %d: %s; want that curl learns at its next renewal", r.code, r.err)
	}
	m.ends(syscall.SIGTERM)
	m, url = u.serve("--url", "memory://")
	u.pastes("../../docs/serve/start.md", "\n## Take a lock with curl\n", url)
	m.ends(syscall.SIGTERM)
}

// pastes runs the commands of a page's section, which ask a service.
func (u *account) pastes(page, heading, url string) {
	u.t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		u.t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), heading)
	section, _, _ = strings.Cut(section, "\n## ")
	script, want := "set -euo pipefail\n", ""
	for _, b := range pageBlock.FindAllStringSubmatch(section, -1) {
		if b[1] == "json" {
			want += b[2]
			continue
		}
		for line := range strings.Lines(strings.ReplaceAll(b[2], "http://127.0.0.1:7845", strings.Replace(url, "stile", "http", 1))) {
			script += line
		}
	}
	got, err := u.command("bash", "-c", script).Output()
	if shape := ofOneRun.ReplaceAllString(string(got), "0"); err != nil || want == "" || shape != ofOneRun.ReplaceAllString(want, "0") {
		u.t.Errorf("%s: its commands print %s, %v; the page shows %s", page, got, err, want)
	}
}
