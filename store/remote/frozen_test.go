//go:build unix

package remote_test

import (
	"testing"
	"time"

	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/memory"
)

// While one of two services is frozen, leases survive and locks can be taken.
func TestFrozenService(t *testing.T) {
	t.Parallel()
	store := memory.NewStore()
	first, _ := service(t, store.Driver(), nobody)
	second, _ := service(t, store.Driver(), nobody)
	p := servertest.NewProxy(t, first)
	drive.Frozen(t, "stile://"+p.Addr+","+second, 6*time.Second, func() { p.Freeze(true, true) })
}
