package driver_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
)

func TestOpenUnknown(t *testing.T) {
	driver.Register("test-b", func(context.Context, *driver.Address) (driver.Driver, error) { return nil, errors.New("b") })
	driver.Register("test-a", func(context.Context, *driver.Address) (driver.Driver, error) { return nil, errors.New("a") })
	want := `unknown store "mystery"; known: test-a, test-b`
	if _, err := driver.Open(t.Context(), "mystery://u:hunter2@h"); err == nil || err.Error() != want || !driver.NotApplied(err) {
		t.Errorf("open = %v; want %s, rejected", err, want)
	}
	want = `redis:// needs a package that this program does not import: add import _ "github.com/stilelock/stile/store/redis"`
	if _, err := driver.Open(t.Context(), "redis://u:hunter2@h"); err == nil || err.Error() != want || !driver.NotApplied(err) {
		t.Errorf("open = %v; want %s, rejected", err, want)
	}
	if _, err := driver.Open(t.Context(), "redsi://h"); err == nil || !strings.Contains(err.Error(), "did you mean redis?") {
		t.Errorf("open = %v; want what was meant", err)
	}
	if _, err := driver.Open(t.Context(), "test-a://"); err == nil || err.Error() != "a" {
		t.Errorf("open = %v; want the opener's error", err)
	}
	if _, err := driver.Open(t.Context(), "hunter2"); !driver.NotApplied(err) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("open = %v; want a definite error without the text", err)
	}
	defer func() {
		if got := recover(); got != "stile: scheme test-a is registered twice" {
			t.Errorf("registering twice: %v", got)
		}
	}()
	driver.Register("test-a", nil)
}
