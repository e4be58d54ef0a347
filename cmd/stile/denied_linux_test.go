package main

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/internal/exit"
)

// bound makes the commands of an account run as a user whom the modes of files bind, unless the test does so itself.
func (u *account) bound() {
	u.t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		u.t.Fatal("the test runs as root, whom no mode binds, and there is no user nobody")
	}
	uid, _ := strconv.Atoi(nobody.Uid)
	gid, _ := strconv.Atoi(nobody.Gid)
	u.binary = filepath.Join(u.home, "stile")
	if err := os.Link(binary, u.binary); err != nil {
		u.t.Fatal(err)
	}
	u.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	for dir := u.home; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o777); err != nil {
			u.t.Fatal(err)
		}
	}
}

// A file that may not be read is named, with the reason, in the first line, and the status says that trying again is of
// no use.
func TestFileOfMode000(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	u.bound()
	path := filepath.Join(u.home, "f")
	type row struct {
		args string
		code int
		want string
	}
	const there = "--url sqlite://FILE"
	tests := []row{
		{"run a --wait 30s " + there + " -- true", exit.BadUsage, "lock file FILE cannot be read: permission denied (its mode is 0000)"},
		{"lock a --wait 30s " + there, exit.BadUsage, "lock file FILE cannot be read: permission denied (its mode is 0000)"},
		{"wait a --wait 30s " + there, exit.BadUsage, "lock file FILE cannot be read: permission denied (its mode is 0000)"},
		{"show a " + there, exit.BadUsage, "lock file FILE cannot be read: permission denied (its mode is 0000)"},
		{"lock a --handle FILE", exit.BadUsage, "--handle FILE: there is such a file, and open FILE: permission denied; give another"},
		{"renew --handle FILE", exit.BadUsage, "--handle FILE: open FILE: permission denied"},
		{"unlock a --handle FILE", exit.BadUsage, "--handle FILE: open FILE: permission denied"},
		{"run a -- FILE", exit.NotExecutable, "FILE cannot be executed: it lacks the permission; chmod +x"},
	}
	for _, scheme := range []string{"rediss", "etcds", "consuls", "zks"} {
		tests = append(tests, row{
			"ls --url " + scheme + "://127.0.0.1:1?tls_ca=FILE", exit.BadUsage, "parameter tls_ca: open FILE: permission denied",
		})
	}
	tests = append(tests, row{
		"ls --url postgres://127.0.0.1:1/x?sslmode=verify-full&sslrootcert=FILE", exit.BadUsage,
		"unable to read CA file: open FILE: permission denied",
	})
	for _, tt := range tests {
		if err := os.WriteFile(path, nil, 0); err != nil {
			t.Fatal(err)
		}
		got := u.run(strings.Fields(strings.ReplaceAll(tt.args, "FILE", path))...)
		want := strings.ReplaceAll(tt.want, "FILE", path)
		if got.code != tt.code || !strings.Contains(got.err, want) || strings.Count(got.err, "\n") != 1 {
			t.Errorf("stile %s: status %d, %q; want %d and %q", tt.args, got.code, got.err, tt.code, want)
		}
	}
	u.env = append(u.env, store.URLFileVariable+"="+path)
	if got := u.run("ls"); got.code != exit.BadUsage || !strings.Contains(got.err, store.URLFileVariable+": open "+path+": permission denied") {
		t.Errorf("%s of mode 000: status %d, %q", store.URLFileVariable, got.code, got.err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the file is gone: %v", err)
	}
}

// A lock whose handle cannot be removed was released all the same, and the status says so.
func TestUnlockWithoutRightToTheHandle(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	u.bound()
	dir := filepath.Join(u.home, "handles")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if u.as != nil {
		if err := os.Chown(dir, int(u.as.Uid), int(u.as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	u.lock("a", "--handle", filepath.Join(dir, "a"))
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	got := u.run("unlock", "a")
	if want := `stile: warning: "a" was released, and its handle cannot be removed: `; got.code != 0 || !strings.HasPrefix(got.err, want) {
		t.Errorf("status %d, %s; want 0, %s", got.code, got.err, want)
	}
	if claims := u.show("a").Claims; len(claims) != 0 {
		t.Errorf("still held: %+v", claims)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}
