package prove

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// The files of a run. All clients run on this machine, so a file that is locked during each access stands for a resource
// that handles one request after the other.
const (
	controlFile = "control" // takes every write
	guardedFile = "guarded" // refuses writes with a smaller token than the largest so far
)

// A register is a number in a file, beside the largest token so far and the count of writes. If every writer adds one to the
// number that it read, the number is smaller than the count by the lost updates.
type register struct{ path string }

// A state is the content of the file.
type state struct{ token, value, writes int64 }

func openRegister(dir, name string) *register { return &register{filepath.Join(dir, name)} }

// do changes the content of the file while nobody else has access.
func (r *register) do(change func(s *state)) (s state, err error) {
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return s, err
	}
	defer f.Close() // which unlocks
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return s, &fs.PathError{Op: "lock", Path: r.path, Err: err}
	}
	text := make([]byte, len(s.text()))
	if n, _ := f.ReadAt(text, 0); n > 0 {
		if _, err := fmt.Sscanf(string(text[:n]), "%d %d %d", &s.token, &s.value, &s.writes); err != nil {
			return s, fmt.Errorf("%s: %w", r.path, err)
		}
	}
	before := s
	change(&s)
	if s == before {
		return s, nil
	}
	_, err = f.WriteAt([]byte(s.text()), 0)
	return s, err
}

// free reports whether the file's lock is to be had within a time.
func (r *register) free(ctx context.Context, within time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	defer f.Close() // which unlocks
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return false, &fs.PathError{Op: "lock", Path: r.path, Err: err}
		case ctx.Err() != nil:
			return false, nil
		}
		pause(ctx, time.Millisecond)
	}
}

// text has the same length for every state, so that a write replaces the whole earlier text.
func (s *state) text() string { return fmt.Sprintf("%020d %020d %020d\n", s.token, s.value, s.writes) }

func (r *register) read() (value int64, err error) {
	s, err := r.do(func(*state) {})
	return s.value, err
}

func (r *register) write(value int64) error {
	_, err := r.do(func(s *state) { s.value, s.writes = value, s.writes+1 })
	return err
}

// raise reads the number, and makes the file refuse later writes with a smaller token. It returns stale if a larger token
// came before.
func (r *register) raise(token int64) (value int64, stale bool, err error) {
	s, err := r.do(func(s *state) {
		if stale = token < s.token; !stale {
			s.token = token
		}
	})
	return s.value, stale, err
}

// writeWith writes the number, unless the token is stale.
func (r *register) writeWith(token, value int64) (stale bool, err error) {
	_, err = r.do(func(s *state) {
		if stale = token < s.token; !stale {
			*s = state{token, value, s.writes + 1}
		}
	})
	return stale, err
}

// cutConnections ends the network connections of this process again and again, for a while, and returns how many it has
// ended. This works for every client library, with TLS and with any number of servers.
func cutConnections(d time.Duration) (count int) {
	const most, every = 1024, 10 * time.Millisecond // descriptors; this process never has more
	for end := time.Now().Add(d); ; time.Sleep(every) {
		for fd := range most {
			if _, err := unix.Getpeername(fd); err != nil {
				continue // it is not a socket, or not connected
			}
			if err := unix.Shutdown(fd, unix.SHUT_RDWR); !errors.Is(err, unix.ENOTCONN) {
				count++
			}
		}
		if time.Now().After(end) {
			return count
		}
	}
}
