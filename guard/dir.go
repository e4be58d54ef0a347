package guard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
)

// Dir keeps marks as small files in a directory, which must be there: the marks of a [Handler] of one or more processes of
// one machine. They last through crashes and power losses. The directory is on a local disk, where the system's locks on
// files work, and nothing else removes files from it.
type Dir string

// Raise shows a token to a resource. It waits, until the context ends, while another process raises. It is not for a
// file that must be changed together with its mark: see [RaiseFile].
func (d Dir) Raise(ctx context.Context, resource string, token int64) error {
	if err := Valid(resource, token); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(resource)) // as short for every name, and apart where the case of letters does not count
	m := &markFile{filepath.Join(string(d), hex.EncodeToString(sum[:])+markSuffix), 0o600}
	return wrap(resource, m.raise(ctx, resource, token))
}

// wrap names the resource in an error of the system.
func wrap(resource string, err error) error {
	if err == nil || errors.Is(err, ErrStale) {
		return err // which names it
	}
	return fmt.Errorf("guard: %q: %w", resource, err)
}
