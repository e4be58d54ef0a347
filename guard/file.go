package guard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// markSuffix ends the name of the file with the mark.
const markSuffix = ".stile"

// A File is a file at which a token was raised. A holder reads and writes the file through it. Several processes of one
// machine may guard one file, if all of them use this type. Each write replaces the whole file, so the contents must fit in
// memory. Its methods may be called at once.
type File struct {
	path  string // without symbolic links
	token int64
	mark  markFile
	mode  fs.FileMode
}

// FileOptions are the settings of [RaiseFile]. Nil and the zero value mean the defaults.
type FileOptions struct {
	Mode fs.FileMode // permissions of new files, before the process's umask; 0 means 0o600. An old file keeps its own
}

// RaiseFile shows a token to the file at a path, and returns the File to read and write with. The file may be missing. From
// then on a lower token is refused, even after a crash or a power loss: the mark is on the disk when RaiseFile returns.
//
// The mark is beside the file, with ".stile" after its name. RaiseFile changes it under the system's lock on the mark, for
// which it waits until the context ends. The directory must be writable and on a local disk. If the mark is removed, late
// holders can raise their tokens again, but cannot write with the tokens that they raised before.
func RaiseFile(ctx context.Context, path string, token int64, o *FileOptions) (*File, error) {
	if o == nil {
		o = &FileOptions{}
	}
	if err := positive(path, token); err != nil {
		return nil, err
	}
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, token: token, mode: o.Mode.Perm()}
	if f.mode == 0 {
		f.mode = 0o600
	}
	switch info, err := os.Stat(path); {
	case err == nil && !info.Mode().IsRegular():
		return nil, fmt.Errorf("guard: %q: %w: it is not a regular file", path, ErrInvalid)
	case err == nil:
		f.mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return nil, wrap(path, err)
	}
	f.mark = markFile{path + markSuffix, f.mode | 0o600}
	if err := f.mark.raise(ctx, path, token); err != nil {
		return nil, wrap(path, err)
	}
	return f, nil
}

// resolve follows the links of a path, so that the mark is always beside the file itself.
func resolve(path string) (string, error) {
	whole, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil {
			return "", fmt.Errorf("guard: %q: %w: it is a symbolic link that leads nowhere", path, ErrInvalid)
		}
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return "", wrap(path, err)
		}
		return filepath.Abs(filepath.Join(dir, filepath.Base(path)))
	}
	if err != nil {
		return "", wrap(path, err)
	}
	return filepath.Abs(whole)
}

// Read returns the contents. The error is [ErrStale] if a higher token was raised meanwhile, and [fs.ErrNotExist] if
// there is no file.
func (f *File) Read(ctx context.Context) (data []byte, err error) {
	err = f.checked(ctx, func() error {
		data, err = os.ReadFile(f.path)
		return err
	})
	return data, err
}

// Write replaces the contents. If a higher token was raised, the error is [ErrStale]. Write creates a new file beside the
// old one, and puts it in its place while the token is the mark and the mark cannot change. A crash leaves the old contents
// or the new, and perhaps a file whose name begins with a dot and ends with ".new". When Write returns nil, the new contents
// are on the disk. The new file has the permissions of the old one, but not its owner or its other links.
func (f *File) Write(ctx context.Context, data []byte) error {
	fresh, err := f.prepare(data)
	if err != nil {
		return wrap(f.path, err)
	}
	defer os.Remove(fresh) // does nothing after the rename
	return f.checked(ctx, func() error {
		if err := os.Rename(fresh, f.path); err != nil {
			return err
		}
		return syncDir(filepath.Dir(f.path))
	})
}

// prepare writes a file that can replace the other one.
func (f *File) prepare(data []byte) (path string, err error) {
	fresh, err := os.CreateTemp(filepath.Dir(f.path), "."+filepath.Base(f.path)+".*.new")
	if err != nil {
		return "", err
	}
	_, err = fresh.Write(data)
	err = errors.Join(err, fresh.Chmod(f.mode), fresh.Sync(), fresh.Close())
	if err != nil {
		os.Remove(fresh.Name())
		return "", err
	}
	return fresh.Name(), nil
}

// checked runs do if the mark is the token. Meanwhile other processes wait for the mark.
func (f *File) checked(ctx context.Context, do func() error) error {
	o, err := f.mark.open(ctx, false)
	if err != nil {
		return wrap(f.path, err)
	}
	defer o.close()
	if err := Judge(f.path, f.token, o.token); err != nil {
		return err
	}
	return wrap(f.path, do())
}
