package wire

import (
	"testing"
)

// A server may send anything. It is decoded, or an error, and never takes more memory than it is long.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte{})
	f.Add(putText(nil, "/a"))
	f.Add(putInt(nil, -1))
	f.Add(putInt(nil, 1<<31-1))
	f.Add(append(putText(putInt(nil, 1), "child"), make([]byte, 68)...))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, c := range []*Call{
			Create("/a", "", Open), CreateContainer("/a", Creator), Delete("/a"), Set("/a", ""), Agree("/a"), Sync("/a"),
			Get("/a", nil), Exists("/a", nil), List("/a", nil),
		} {
			c.answered(0, body)
			size := len(c.Path) + len(c.Data)
			for _, child := range c.Children {
				size += len(child) + 4
			}
			if c.Err != nil || size > len(body) {
				t.Errorf("an answer of %d bytes: error %v, %d bytes read", len(body), c.Err, size)
			}
		}
	})
}

func TestWatches(t *testing.T) {
	var told []string
	watch := func(name string) *Watch { return NewWatch(func() { told = append(told, name) }) }
	tests := []struct {
		name string
		do   func(c *conn)
		want string
	}{
		{"a change of data", func(c *conn) { c.watches.event(3, "/a") }, "data"},
		{"a change of children", func(c *conn) { c.watches.event(nodeChildrenChanged, "/a") }, "children"},
		{"a removal", func(c *conn) { c.watches.event(nodeDeleted, "/a") }, "both"},
		{"a change elsewhere", func(c *conn) { c.watches.event(nodeDeleted, "/b") }, ""},
		{"the end of the connection", func(c *conn) { c.watches.end() }, "both"},
	}
	for _, test := range tests {
		told = nil
		c := &conn{kick: make(chan struct{}, 1)}
		data, children, dropped := watch("data"), watch("children"), watch("dropped")
		if err := c.send([]*Call{Get("/a", data), List("/a", children), Get("/a", dropped)}); err != nil {
			t.Fatal(err)
		}
		dropped.Drop()
		if !data.Stands() || !children.Stands() || dropped.Stands() {
			t.Errorf("before %s: the watches do not stand as they should", test.name)
		}
		test.do(c)
		test.do(c) // each fires once
		got := ""
		switch len(told) {
		case 1:
			got = told[0]
		case 2:
			got = "both"
		}
		if got != test.want || len(told) > 2 {
			t.Errorf("%s tells %q; want %q", test.name, told, test.want)
		}
		data.Drop()
		children.Drop()
		if n := len(c.watches.by); n != 0 {
			t.Errorf("after %s: %d watches are remembered; want none", test.name, n)
		}
	}
}

// A watch is set by one call, and never again.
func TestWatchIsUsedOnce(t *testing.T) {
	c := &conn{kick: make(chan struct{}, 1)}
	told := 0
	w := NewWatch(func() { told++ })
	for range 2 {
		if err := c.send([]*Call{Get("/a", w)}); err != nil {
			t.Fatal(err)
		}
		c.watches.event(nodeDeleted, "/a")
	}
	if told != 1 || w.Stands() || len(c.watches.by) != 0 {
		t.Errorf("the watch was told %d times and stands: %v", told, w.Stands())
	}
}
