package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/stilelock/stile/driver"
)

// With --of 0 only the store knows how many permits there are, so an ancestor with one of them is no conflict. One that
// holds the whole name is.
func TestOwnCountInAnAncestor(t *testing.T) {
	a, err := driver.ParseAddress("zk://h/?layout=semaphore")
	if err != nil {
		t.Fatal(err)
	}
	w := &wish{names: []string{"a"}, permits: 1, ofSet: true}
	held := w.hold(a, "a")
	held.process = os.Getppid()
	t.Setenv(heldVariable, held.String())
	if err := w.conflict(a); err != nil {
		t.Errorf("a permit beside an ancestor's: %v; want nil", err)
	}
	t.Setenv(heldVariable, fmt.Sprintf("%s:%d:%d:%d", held.key, driver.All, driver.All, held.process))
	if err := w.conflict(a); err == nil {
		t.Error("a permit while an ancestor has the name for itself: no error")
	}
}
