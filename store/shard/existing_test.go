package shard_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// opened are the opened files, with their parameters create and busy. They stand for package sqlite's files, which the core
// does not import.
var opened struct {
	mu    sync.Mutex
	files []string
}

func init() {
	driver.Register("sqlite", func(_ context.Context, a *driver.Address) (driver.Driver, error) {
		file := a.Path + " " + a.Param("create", "-") + " " + a.Param("busy", "-")
		if err := a.Done(); err != nil {
			return nil, err
		}
		opened.mu.Lock()
		defer opened.mu.Unlock()
		opened.files = append(opened.files, file)
		return memory.NewStore().Driver(), nil
	})
}

// A command that only looks sets create=false for all stores together, and only files get the parameter.
func TestOnlyExistingFiles(t *testing.T) {
	for _, tt := range []struct {
		url  string
		want []string
	}{
		{"shard://?stores=a=sqlite:///1;b=memory://", []string{"1 - -"}},
		{"shard://?stores=a=sqlite:///1;b=memory://&create=true", []string{"1 - -"}},
		{"shard://?stores=a=sqlite:///1;b=memory://;c=sqlite:///2?busy=1s&create=false", []string{"1 false -", "2 false 1s"}},
		{"shard://?stores=a=sqlite:///1?create=true&previous=b=sqlite:///2;a&create=false", []string{"1 true -", "2 false -"}},
		{"shard://?stores=a=shard://?stores=b=sqlite:///1&create=false", []string{"1 false -"}},
	} {
		opened.files = nil
		d, err := driver.Open(t.Context(), tt.url)
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
			continue
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if slices.Sort(opened.files); !slices.Equal(opened.files, tt.want) {
			t.Errorf("%s opens %q; want %q", tt.url, opened.files, tt.want)
		}
	}
	if _, err := driver.Open(t.Context(), "shard://?stores=a=memory://&create=no"); err == nil || !strings.Contains(err.Error(), "create must be true or false") {
		t.Errorf("create=no: %v; want an error about it", err)
	}
}
