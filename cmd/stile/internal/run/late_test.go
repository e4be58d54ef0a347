package run

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stilelock/stile"
	_ "github.com/stilelock/stile/cmd/stile/internal/early" // the guard is this program
	"github.com/stilelock/stile/cmd/stile/internal/guard"
	"github.com/stilelock/stile/internal/boottime"
	_ "github.com/stilelock/stile/store/memory"
)

// The guard executes nothing once the time has come until which CMD may run, and says so once.
func TestGuardRefusesLate(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	c, err := NewChild(nil)
	if err != nil {
		t.Fatal(err)
	}
	c.allow(boottime.Now() - time.Second)
	(&guard.Order{Run: &guard.Program{Path: "/bin/sh", Args: []string{"sh", "-c", "echo >" + ran + "; exec sleep 60"}}}).Send(c.in)
	c.dismiss()
	late := 0
	for n := range c.news {
		if n.Late {
			late++
		}
		if n.PID != 0 || n.Exited {
			t.Errorf("the guard executed CMD: %+v", n)
		}
	}
	c.Close()
	if _, err := os.Stat(ran); err == nil || late != 1 {
		t.Errorf("the guard said %d times that it was late, want once; CMD ran: %v", late, err == nil)
	}
}

// Nor does stile have the guard begin CMD under a lease that is over: it was lost by others, or its end is too near.
func TestKeeperRefusesLate(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(*testing.T, *stile.Client, *Keeper)
		want  stile.Reason
	}{
		{"removed", func(t *testing.T, c *stile.Client, k *Keeper) {
			t.Helper()
			if _, err := c.Break(t.Context(), "a", stile.BreakOptions{Head: true}); err != nil {
				t.Fatal(err)
			}
			<-k.Lease.Context().Done()
		}, stile.ReasonBroken},
		{"too near", func(_ *testing.T, _ *stile.Client, k *Keeper) { k.Lead = time.Hour }, stile.ReasonExpired},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client, err := stile.Open(t.Context(), "memory://", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			lease, err := client.Mutex("a").With(stile.LockOptions{TTL: time.Second}).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c, err := NewChild(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			k := &Keeper{Lease: lease, Child: c, Lead: LeadFor(time.Second), Since: boottime.Now()}
			tt.spoil(t, client, k)
			err = k.Begin(&guard.Program{Path: "/bin/true", Args: []string{"true"}}, NewEvents())
			if lost, ok := errors.AsType[*stile.LostError](err); !ok || lost.Reason != tt.want || c.PGID != 0 {
				t.Errorf("CMD is begun with %v, in group %d; want %v", err, c.PGID, tt.want)
			}
		})
	}
}
