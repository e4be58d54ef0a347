//go:build unix

package casqueue_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/casqueue"
)

// Files keep each name's value in a file of one folder, for the processes of one machine. A file's first line is the
// version, the second the name, and the rest the value.
type files struct{ folder string }

// path returns the file of a name. Names may have any characters, and be longer than a file's name may be.
func (f files) path(name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(f.folder, hex.EncodeToString(sum[:]))
}

// Get reads the clock after the file, so a lease in the file began before that time.
func (f files) Get(_ context.Context, name string) (casqueue.Value, error) {
	version, _, text, err := read(f.path(name))
	return casqueue.Value{Version: version, Text: text, Now: clock()}, err
}

// clock is the machine's clock. If somebody sets it back, leases last longer by the same time.
func clock() time.Duration { return time.Duration(time.Now().UnixNano()) }

// read returns the content of a file. A missing file has no version.
func read(path string) (version casqueue.Version, name string, text []byte, err error) {
	all, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil, nil
	}
	if err != nil {
		return "", "", nil, driver.Unsent(err)
	}
	parts := bytes.SplitN(all, []byte("\n"), 3)
	if len(parts) != 3 {
		return "", "", nil, driver.ErrForeign
	}
	return casqueue.Version(parts[0]), string(parts[1]), parts[2], nil
}

// Swap compares and renames under the lock of a file beside the value, so it is one step for all processes. A failure before
// the rename changes nothing.
func (f files) Swap(ctx context.Context, name string, was casqueue.Version, text []byte) (bool, error) {
	path := f.path(name)
	guard, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, driver.Unsent(err)
	}
	defer guard.Close() // frees the lock
	if err := exclude(ctx, guard); err != nil {
		return false, err
	}
	is, _, _, err := read(path)
	if err != nil || is != was {
		return false, err
	}
	count, _ := strconv.Atoi(string(was))
	all := strings.Join([]string{strconv.Itoa(count + 1), name, string(text)}, "\n")
	if err := write(path+".next", all); err != nil {
		return false, driver.Unsent(err)
	}
	return true, errors.Join(os.Rename(path+".next", path), f.sync()) // an error leaves the outcome unknown
}

// write makes a file that is on the disk when write returns.
func write(path, text string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Sync(), file.Close())
}

// sync puts the rename on the disk.
func (f files) sync() error {
	folder, err := os.Open(f.folder)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// exclude waits until no other process has the lock of a file. flock itself has no time limit.
func exclude(ctx context.Context, file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || !errors.Is(err, syscall.EWOULDBLOCK) {
			return driver.Unsent(err)
		}
		select {
		case <-ctx.Done():
			return driver.Ended(ctx, false)
		case <-time.After(100 * time.Microsecond):
		}
	}
}

// Names reads the second line of each file.
func (f files) Names(_ context.Context, prefix string) (names []string, err error) {
	list, err := os.ReadDir(f.folder)
	if err != nil {
		return nil, err
	}
	for _, file := range list {
		if filepath.Ext(file.Name()) != "" {
			continue // a lock, or a value that is being written
		}
		_, name, _, err := read(filepath.Join(f.folder, file.Name()))
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Traits promises that tickets rise unless the folder is lost: nothing removes a value.
func (f files) Traits() driver.Traits {
	return driver.Traits{
		Store: "files", Clock: "host", Fencing: driver.DurableFencing, Restart: true,
		MinTTL: 10 * time.Millisecond, MaxTTL: driver.MaxTTL,
	}
}

func (files) Close() error { return nil }
