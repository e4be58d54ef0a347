package guard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
)

// Dir keeps marks as small files in a directory, which must exist. It is for a [Handler] in one or more processes of one
// machine. The marks last through crashes and power losses. The directory must be on a local disk, where the system's locks
// on files work, and no other program may remove files from it.
type Dir string

// Raise shows a token to a resource. While another process raises, it waits until the context ends. For a file that must be
// changed together with its mark, use [RaiseFile].
func (d Dir) Raise(ctx context.Context, resource string, token int64) error {
	if err := Valid(resource, token); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(resource)) // short for every name, and distinct even if the file system ignores case
	m := &markFile{filepath.Join(string(d), hex.EncodeToString(sum[:])+markSuffix), 0o600}
	return wrap(resource, m.raise(ctx, resource, token))
}

// wrap names the resource in an error of the system.
func wrap(resource string, err error) error {
	if err == nil || errors.Is(err, ErrStale) {
		return err // the error already names the file
	}
	return fmt.Errorf("guard: %q: %w", resource, err)
}
