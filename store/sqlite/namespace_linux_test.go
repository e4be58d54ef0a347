package sqlite

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// These tests do with unshare(1) and mount(8) what containers do to a lock file. A test that may not make a namespace fails:
// a skip would look like a pass, and in these cases two processes once held one lock.

// contained runs a part of [child] in namespaces of its own, after a shell script has arranged them. It returns the output
// of the part, and the reason of its failure.
func contained(t testing.TB, namespaces []string, script, part string, args ...string) (line string, failed error) {
	t.Helper()
	p := startContained(t, namespaces, script, part, args...)
	line = p.line()
	for p.out.Scan() {
	}
	if err := p.Wait(); err != nil {
		text := strings.TrimSpace(p.err.String())
		if strings.Contains(text, "unshare:") || strings.Contains(text, "mount:") {
			t.Fatalf("this test needs the right to make namespaces and mounts, as root has it, or CAP_SYS_ADMIN: %s", text)
		}
		failed = fmt.Errorf("%w: %s", err, text)
	}
	return line, failed
}

func startContained(t testing.TB, namespaces []string, script, part string, args ...string) *process {
	t.Helper()
	for _, tool := range []string{"unshare", "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("this test needs %s(1) of util-linux: %v", tool, err)
		}
	}
	words := append([]string{"--fork", "--kill-child"}, namespaces...)
	words = append(words, "sh", "-c", script+"\nexec \"$0\" \"$@\"", os.Args[0])
	return startCommand(t, exec.CommandContext(t.Context(), "unshare", append(words, args...)...), part)
}

var mountNamespace = []string{"--mount"}

// bootID returns a shell script that gives the container a boot id of its own, as systemd-nspawn and LXC do.
func bootID(t testing.TB, id string) string {
	file := filepath.Join(t.TempDir(), "boot_id")
	write(t, file, id+"\n")
	return "set -e; mount --bind " + file + " /proc/sys/kernel/random/boot_id"
}

// If only the file is mounted, its log is in the container's own folder, which nobody else sees.
func TestFileMountedAlone(t *testing.T) {
	path := lockFile(t)
	inside := filepath.Join(t.TempDir(), "inside.db")
	write(t, inside, "")
	d := open(t, path)
	held := claim("x", time.Minute)
	enter(t, d, held, true)
	line, err := contained(t, mountNamespace, "set -e; mount --bind "+path+" "+inside, "try", inside)
	if line != "" {
		t.Errorf("a container with the file alone found the lock %s; want it refused", line)
	}
	says(t, "open of a file that is mounted alone", err, inside, "mounted", "mount the folder")
}

// A container that has only the file open by other means cannot be recognized, but its lock on the file can.
func TestFileIsOpenElsewhereWithAnotherLog(t *testing.T) {
	path := lockFile(t)
	inside := filepath.Join(t.TempDir(), "inside.db")
	write(t, inside, "")
	open(t, path).Close()
	p := startContained(t, mountNamespace, "set -e; mount --bind "+path+" "+inside, "occupy", inside)
	if got := p.line(); got != "occupied" {
		t.Fatalf("the child says %q: %s", got, p.err.String())
	}
	d, err := Open(t.Context(), path, &Options{Busy: 50 * time.Millisecond})
	if err == nil {
		d.Close()
	}
	says(t, "open of a file that another process uses with another log", err, path, "another log", "process")
	if !driver.NotApplied(err) {
		t.Errorf("open = %v; want a definite error", err)
	}
	p.in.Close()
	p.waitExit(t)
	enter(t, open(t, path), claim("x", time.Minute), true)
}

// If the whole folder is mounted, the log is mounted too, at any path.
func TestFolderMounted(t *testing.T) {
	path, elsewhere := lockFile(t), t.TempDir()
	held := claim("x", time.Minute)
	enter(t, open(t, path), held, true)
	line, err := contained(t, mountNamespace, "set -e; mount --bind "+filepath.Dir(path)+" "+elsewhere,
		"try", filepath.Join(elsewhere, filepath.Base(path)))
	if line != "held" || err != nil {
		t.Errorf("a container with the folder found the lock %q, %v; want held", line, err)
	}
}

// Two boot ids on one kernel do not mean two boots.
func TestTwoBootIDsOnOneKernel(t *testing.T) {
	for name, script := range map[string]string{
		"a file":      bootID(t, "11111111-2222-4333-8444-555555555555"),
		"no id":       bootID(t, ""),
		"one of proc": "set -e; mount --bind /proc/sys/kernel/random/uuid /proc/sys/kernel/random/boot_id",
	} {
		t.Run(name, func(t *testing.T) {
			path := lockFile(t)
			d := open(t, path)
			held := claim("x", time.Minute)
			enter(t, d, held, true)
			for range 2 {
				if line, err := contained(t, mountNamespace, script, "try", path); line != "held" || err != nil {
					t.Fatalf("a container with a boot id of its own found the lock %q, %v; want held", line, err)
				}
				if got := d.Renew(t.Context(), []*driver.Claim{held})[0].Err; got != nil {
					t.Fatalf("renewal after a container with a boot id of its own came: %v; want nil", got)
				}
			}
			// The container's claims count for the host too.
			leave(t, d, held)
			p := startContained(t, mountNamespace, script, "hold", path, "1m")
			if got := p.line(); got != "holds" {
				t.Fatalf("the child says %q: %s", got, p.err.String())
			}
			enter(t, open(t, path), claim("x", time.Minute), false)
			p.in.Close()
			p.waitExit(t)
		})
	}
}

// Each time namespace may count its boot clock from another start.
func TestTimeNamespace(t *testing.T) {
	path := lockFile(t)
	d := open(t, path)
	held := claim("x", time.Minute)
	enter(t, d, held, true)
	for _, offset := range []string{"86400", "-60"} {
		namespaces := []string{"--time", "--boottime", offset}
		if line, err := contained(t, namespaces, "", "try", path); line != "held" || err != nil {
			t.Errorf("a process whose clock is %s s ahead found the lock %q, %v; want held", offset, line, err)
		}
		if got := d.Renew(t.Context(), []*driver.Claim{held})[0].Err; got != nil {
			t.Fatalf("renewal after a process whose clock is %s s ahead: %v; want nil", offset, got)
		}
	}
}
