package ensemble

import (
	"errors"
	"testing"

	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// A container that the server removes between two requests is made once more. A missing chroot, and a parent that the client
// may not make, end the attempt.
func TestMakesParents(t *testing.T) {
	other := errors.New("not allowed")
	for _, tt := range []struct {
		parents []error
		want    bool
	}{
		{nil, true},
		{[]error{nil}, true},
		{[]error{wire.NodeExists, wire.NodeExists}, true},
		{[]error{wire.NodeExists, wire.NoNode}, true},
		{[]error{wire.NoNode, wire.NoNode}, false},
		{[]error{wire.NodeExists, other}, false},
		{[]error{other}, false},
	} {
		var parents []*wire.Call
		for _, err := range tt.parents {
			parents = append(parents, &wire.Call{Err: err})
		}
		if got := MakesParents(parents); got != tt.want {
			t.Errorf("parents answered %v: made once more: %v; want %v", tt.parents, got, tt.want)
		}
	}
}
