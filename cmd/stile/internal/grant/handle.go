package grant

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/flags"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/exit"
)

// A File names a claim that a script holds between one call of stile and the next. Anybody who can read the file can release
// the lock, so only its owner can read it. It identifies the store without user and password.
type File struct {
	Stile     int            `json:"stile"` // the version of this format
	Store     string         `json:"store"`
	Name      string         `json:"name"`
	ID        string         `json:"id"`
	Weight    int64          `json:"weight"`
	Capacity  int64          `json:"capacity"`
	Token     string         `json:"token"`              // of the grant; the ticket if the store has no fencing
	Unfenced  bool           `json:"unfenced,omitempty"` // it has no fencing
	TTL       flags.Duration `json:"ttl"`
	LockDelay flags.Duration `json:"lock_delay"`
}

const handleVersion = 1

// FileOf returns the handle of a grant in the store of an address.
func FileOf(address *driver.Address, h stile.Handle) *File {
	return &File{
		Stile: handleVersion, Store: StoreID(address), Name: h.Name, ID: h.ID, Weight: h.Weight, Capacity: h.Capacity,
		Token: strconv.FormatInt(h.Ticket, 10), Unfenced: h.Token == 0, TTL: flags.Duration(h.TTL),
		LockDelay: flags.Duration(h.LockDelay),
	}
}

// StoreID identifies a store, without secrets.
func StoreID(a *driver.Address) string {
	id := *a
	id.User = ""
	return id.String()
}

// Handle returns the library's handle.
func (h *File) Handle() (stile.Handle, error) {
	token, err := strconv.ParseInt(h.Token, 10, 64)
	if err != nil {
		return stile.Handle{}, fmt.Errorf("its token is not a number")
	}
	handle := stile.Handle{
		Name: h.Name, ID: h.ID, Weight: h.Weight, Capacity: h.Capacity, Ticket: token, Token: token,
		TTL: time.Duration(h.TTL), LockDelay: time.Duration(h.LockDelay),
	}
	if h.Unfenced {
		handle.Token = 0
	}
	return handle, nil
}

// ErrNone says that the file is not a handle.
var ErrNone = errors.New("it is not a handle of stile lock")

// mostHandle is larger than any handle: its name has at most 255 bytes.
const mostHandle = 1 << 16

// Read reads a handle. The error is [fs.ErrNotExist] if there is none.
func Read(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostHandle)) // reading a device may never end
	if err != nil {
		return nil, err
	}
	h := &File{}
	if json.Unmarshal(text, h) != nil || h.Stile != handleVersion || h.ID == "" {
		return nil, ErrNone
	}
	return h, nil
}

// CheckPath returns, before the wait for a lock, the reason why its handle cannot be written. An existing file is never
// replaced: a slow script may still act on it, and would then act on this grant.
func CheckPath(path string) error {
	if dir := filepath.Dir(path); unix.Access(dir, unix.W_OK|unix.X_OK) != nil {
		return exit.Usage("--handle %s: %s is no folder that you can write into", path, dir)
	}
	// Opening a pipe would wait for its writer.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return exit.Usage("--handle %s: there is such a file, and %w; give another", path, ErrNone)
	}
	h, err := Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return exit.Usage("--handle %s: there is such a file, and %w; give another", path, err)
	}
	return exit.Usage("%s is the handle of another grant of %q: unlock it, or remove the file if its script has ended, or "+
		"give --handle another file",
		path, h.Name)
}

// Write writes the handle, whole or not at all. An existing file is an error.
func (h *File) Write(path string) error {
	text, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".handle-*") // readable by its owner only
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), path)
}
