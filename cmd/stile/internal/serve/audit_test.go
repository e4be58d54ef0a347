package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/server"
)

// lines returns the names of the events in files.
func lines(t *testing.T, paths ...string) (names []string) {
	t.Helper()
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			var e server.Event
			if err := json.Unmarshal(line, &e); err != nil {
				names = append(names, "broken")
				continue
			}
			names = append(names, e.Name)
		}
	}
	return names
}

// newAudit opens an audit in a file, and returns it with the warnings that it gives.
func newAudit(t *testing.T, path string, locks bool) (*auditFile, *[]string) {
	t.Helper()
	var warned []string
	a, err := openAudit(path, locks, func(err error) { warned = append(warned, err.Error()) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.close)
	return a, &warned
}

// puts writes an event with a name.
func puts(t *testing.T, a *auditFile, name string) {
	t.Helper()
	if err := a.take(server.Event{Action: server.Broke, Name: name}); err != nil {
		t.Fatal(err)
	}
}

// The file is its owner's alone, keeps what is in it, and belongs to one service. Locks that are taken are in it on demand.
func TestAuditFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	a, _ := newAudit(t, path, false)
	puts(t, a, "a")
	for _, what := range []server.Action{server.Took, server.Released} {
		if err := a.take(server.Event{Action: what, Name: "b"}); err != nil {
			t.Fatal(err)
		}
	}
	if is, err := os.Stat(path); err != nil || is.Mode() != 0o600 {
		t.Errorf("the file has %v, %v; want 0600", is.Mode(), err)
	}
	if _, err := openAudit(path, false, nil); err == nil || !strings.Contains(err.Error(), "in use by another service") {
		t.Errorf("a second service gets %v; want a refusal", err)
	}
	a.close()
	if err := os.WriteFile(path, append(content(t, path), `{"torn`...), 0o600); err != nil {
		t.Fatal(err)
	}
	a, _ = newAudit(t, path, true)
	if err := a.take(server.Event{Action: server.Took, Name: "c"}); err != nil {
		t.Fatal(err)
	}
	puts(t, a, "d")
	if got := lines(t, path); !slices.Equal(got, []string{"a", "broken", "c", "d"}) {
		t.Errorf("the file has %q; want a, a broken line, c and d", got)
	}
	a.close()
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := openAudit(path, false, nil); err == nil || !strings.Contains(err.Error(), "make it chmod 600") {
		t.Errorf("a file that others can read gives %v; want a refusal", err)
	}
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A file that was renamed, removed or cut is no obstacle, and no line is lost.
func TestAuditFileIsRotated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	a, warned := newAudit(t, path, false)
	puts(t, a, "a")
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	puts(t, a, "b")
	if err := errors.Join(os.Rename(path, path+".older"), os.WriteFile(path, nil, 0o600)); err != nil { // logrotate's create
		t.Fatal(err)
	}
	puts(t, a, "c")
	if got := lines(t, path+".old", path+".older", path); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("the files have %q; want a, b, c", got)
	}
	if err := os.Truncate(path, 0); err != nil { // logrotate's copytruncate
		t.Fatal(err)
	}
	puts(t, a, "d")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	puts(t, a, "e")
	if got := lines(t, path); !slices.Equal(got, []string{"e"}) || len(*warned) != 0 {
		t.Errorf("the file has %q, with the warnings %q; want e, and no warning", got, *warned)
	}
	if err := errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o644)); err != nil { //nolint:gosec // the fault
		t.Fatal(err)
	}
	for range 2 {
		if err := a.take(server.Event{Action: server.Broke}); err == nil {
			t.Error("a file that others can read takes a line")
		}
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	puts(t, a, "f")
	if len(*warned) != 1 || !strings.Contains((*warned)[0], "chmod 600") {
		t.Errorf("the warnings are %q; want one", *warned)
	}
}

// Two files bound the audit, whatever happens.
func TestAuditFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	a, warned := newAudit(t, path, false)
	a.most = 2000
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			for j := range 20 {
				if err := a.take(server.Event{Action: server.Refused, Name: fmt.Sprint(i, "-", j)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	puts(t, a, "last")
	got := lines(t, path+".1", path)
	if size := len(content(t, path)) + len(content(t, path+".1")); size > 4000 || size < 2000 || slices.Contains(got, "broken") || got[len(got)-1] != "last" {
		t.Errorf("the files have %d bytes, and %q", size, got)
	}
	if err := errors.Join(os.Remove(path+".1"), os.MkdirAll(filepath.Join(path+".1", "x"), 0o700)); err != nil { // a rename fails
		t.Fatal(err)
	}
	for i := range 30 {
		puts(t, a, fmt.Sprint(i))
	}
	if got := lines(t, path); got[len(got)-1] != "29" || len(got) < 30 || len(*warned) == 0 {
		t.Errorf("without a place for the old file there are %q, and the warnings %q; want 30 lines or more, and a warning", got, *warned)
	}
}

// A disk that is full refuses lines; when it has room again, the next line is whole.
func TestAuditFileIsFull(t *testing.T) {
	file := filepath.Join(t.TempDir(), "full")
	full, warned := newAudit(t, file, false)
	device, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err == nil {
		err = errors.Join(os.Remove(file), os.Symlink("/dev/full", file)) // so that the path names the open file
	}
	if err != nil {
		t.Fatal(err)
	}
	full.mu.Lock()
	full.closeLocked()
	full.f = device
	full.mu.Unlock()
	for range 2 {
		if err := full.take(server.Event{Action: server.Broke}); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("a line on a full disk = %v; want no space", err)
		}
	}
	if len(*warned) != 1 || !strings.Contains((*warned)[0], "no space") {
		t.Errorf("the warnings are %q; want one", *warned)
	}
	path := filepath.Join(t.TempDir(), "audit")
	a, _ := newAudit(t, path, false)
	puts(t, a, "a")
	a.mu.Lock()
	_, err = a.f.WriteString(`{"torn`) // as a full disk leaves it
	a.torn = true
	a.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	puts(t, a, "b")
	puts(t, a, "c")
	if got := lines(t, path); !slices.Equal(got, []string{"a", "broken", "b", "c"}) {
		t.Errorf("the file has %q; want a, a broken line, b and c", got)
	}
}

// A pipe would hold up the service while nobody reads it. So it is refused, also in place of the file.
func TestAuditFileIsNoPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	a, _ := newAudit(t, path, false)
	puts(t, a, "a")
	if err := errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := a.take(server.Event{Action: server.Broke}); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a line into a pipe = %v; want a refusal", err)
	}
	if _, err := openAudit(path, false, nil); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a pipe gives %v; want a refusal", err)
	}
}

// While the disk stands still, only breaks wait. Other lines follow when it goes on, in their order, and lost ones are counted.
func TestAuditFileHoldsUpBreaksOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	a, warned := newAudit(t, path, true)
	put := func(i int) error {
		what := server.Refused
		if i%2 == 0 {
			what = server.Took
		}
		return a.take(server.Event{Action: what, Name: fmt.Sprint(i)})
	}
	a.mu.Lock() // as a write does that the disk does not answer
	if err := put(0); err != nil {
		t.Error(err)
	}
	servertest.Until(t, "the first line is being written", func() bool { return len(a.queue) == 0 })
	broke := make(chan error, 1)
	go func() { broke <- a.take(server.Event{Action: server.Broke, Name: "break"}) }()
	servertest.Until(t, "the break's line waits", func() bool { return len(a.queue) == 1 })
	const more = 5
	for i := range mostBehind - 1 + more {
		if err := put(1 + i); (err != nil) != (i >= mostBehind-1) {
			t.Errorf("line %d = %v", 1+i, err)
		}
	}
	if len(*warned) != 1 || !strings.Contains((*warned)[0], "takes no lines") {
		t.Errorf("the warnings are %q; want one", *warned)
	}
	if len(broke) > 0 {
		t.Error("a break did not wait for its line")
	}
	a.mu.Unlock()
	if err := <-broke; err != nil {
		t.Error(err)
	}
	puts(t, a, "last") // after all others
	got := lines(t, path)
	if n := len(got); n != mostBehind+2 || !slices.Equal(got[:3], []string{"0", "break", "1"}) || got[n-2] != fmt.Sprint(mostBehind-1) {
		t.Errorf("there are %d lines, from %q to %q; want the first, the break, and those behind it", n, got[:3], got[n-2:])
	}
	a.close()
	if err := a.take(server.Event{Action: server.Broke}); err == nil {
		t.Error("a break after the end has a line")
	}
	if len(*warned) != 2 || !strings.HasSuffix((*warned)[1], " are lost") {
		t.Errorf("the warnings are %q; want how many lines are lost", *warned)
	}
}

// The service ends even if a line is never written.
func TestAuditFileIsStalled(t *testing.T) {
	a, warned := newAudit(t, filepath.Join(t.TempDir(), "audit"), false)
	a.mu.Lock() // as a write does that the disk does not answer
	a.close()
	a.mu.Unlock()
	if len(*warned) != 1 || !strings.Contains((*warned)[0], "does not take a line") {
		t.Errorf("the warnings are %q; want one", *warned)
	}
}
