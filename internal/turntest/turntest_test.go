//go:build unix

package turntest

import (
	"os"
	"syscall"
	"testing"
)

// The lock of these processes is one of the kernel, which goes when its process does, and the token is the file's length.
func TestMain(m *testing.M) {
	Main(m, func(args []string, work func(int64)) error {
		f, err := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		for err == nil {
			err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
			if err == nil {
				_, err = f.WriteString("x")
			}
			if info, bad := f.Stat(); err == nil && bad == nil {
				work(info.Size())
				err = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
			}
		}
		return err
	})
}

func TestKill(t *testing.T) { Kill(t, 3, t.TempDir()+"/lock") }
