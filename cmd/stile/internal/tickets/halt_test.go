package tickets

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/demo"
	_ "github.com/stilelock/stile/store/sqlite"
)

// midWriteVariable names the SQLite file in which a test's process is in the middle of a write, until it goes on after a
// stop.
const midWriteVariable = "STILE_TEST_MID_WRITE"

func TestMain(m *testing.M) {
	if path := os.Getenv(midWriteVariable); path != "" {
		panic(midWrite(path))
	}
	os.Exit(m.Run())
}

// midWrite is that process.
func midWrite(path string) error {
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, syscall.SIGCONT)
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	if err != nil {
		return err
	}
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	fmt.Println("writes")
	<-goesOn
	if err := tx.Rollback(); err != nil {
		return err
	}
	select {} // until it is killed
}

// A process that a signal would stop in the middle of a write is stopped after the write: others can have locks then.
func TestHalt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks.db")
	client, err := stile.Open(t.Context(), "sqlite://"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), midWriteVariable+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for in := bufio.NewScanner(out); in.Scan() && in.Text() != "writes"; {
	}
	lock := client.Mutex("order")
	if answers(t, lock, time.Second) {
		t.Fatal("others can write before the process is stopped: the test proves nothing")
	}
	if err := (&demo.Process{Cmd: cmd}).Halt(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid)); err != nil || !strings.Contains(string(stat), ") T ") {
		t.Errorf("the process is not stopped: %s, %v", stat, err)
	}
	if !answers(t, lock, time.Minute) {
		t.Fatal("nobody else gets the lock while the process is stopped")
	}
}

// answers reports whether the store lets this process have a lock.
func answers(t *testing.T, lock *stile.Lock, most time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	lease, err := lock.TryLock(ctx)
	return err == nil && lease.Unlock() == nil
}
