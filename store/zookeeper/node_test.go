package zookeeper

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
)

const id = "_c_00112233-4455-6677-8899-aabbccddeeff-"

func TestParse(t *testing.T) {
	const all = driver.All
	tests := []struct {
		layout           layout
		name             string
		ok               bool
		seq              int32
		weight, capacity int64
	}{
		{mutexLayout, id + "lock-0000000007", true, 7, all, all},
		{mutexLayout, id + "r-lock-0000000007", true, 7, 1, all},
		{mutexLayout, id + "p3of10-lock-0000000007", true, 7, 3, 10},
		{mutexLayout, id + "p2of2147483647-lock-0000000007", true, 7, 2, all},
		{mutexLayout, id + "lock-2147483647", true, 1<<31 - 1, all, all},
		{mutexLayout, id + "lock--2147483648", true, -1 << 31, all, all},
		{mutexLayout, id + "lock--000000005", true, -5, all, all},
		{mutexLayout, id + "latch-0000000007", true, 7, all, all},
		{latchLayout, id + "latch-0000000007", true, 7, all, all},
		{latchLayout, id + "r-latch-0000000007", true, 7, 1, all},
		{latchLayout, id + "p3of10-latch-0000000007", true, 7, 3, 10},
		{latchLayout, id + "lock-0000000007", true, 7, all, all},
		{rwLayout, id + "latch-0000000007", true, 7, all, all},
		// What is not understood counts as exclusive.
		{mutexLayout, id + "p0of10-lock-0000000007", true, 7, all, all},
		{mutexLayout, id + "p11of10-lock-0000000007", true, 7, all, all},
		{mutexLayout, id + "p03of10-lock-0000000007", true, 7, all, all},
		{mutexLayout, id + "p3of99999999999-lock-0000000007", true, 7, all, all},
		{mutexLayout, id + "w-lock-0000000007", true, 7, all, all},
		// Other clients: go-zookeeper, kazoo, .NET, Curator's read-write lock.
		{mutexLayout, "_c_00112233445566778899aabbccddeeff-lock-0000000007", true, 7, all, all},
		{mutexLayout, "00112233445566778899aabbccddeeff__lock__0000000007", true, 7, all, all},
		{mutexLayout, "00112233445566778899aabbccddeeff__rlock__0000000007", true, 7, all, all},
		{mutexLayout, "lock-0000000007", true, 7, all, all},
		{mutexLayout, "r-lock-0000000007", true, 7, all, all},
		{mutexLayout, id + "__WRIT__0000000007", true, 7, all, all},
		{mutexLayout, id + "__READ__0000000007", true, 7, all, all},
		{rwLayout, id + "__WRIT__0000000007", true, 7, all, all},
		{rwLayout, id + "__READ__0000000007", true, 7, 1, all},
		{rwLayout, id + "lock-0000000007", true, 7, all, all},
		// What is no lock.
		{mutexLayout, "", false, 0, 0, 0},
		{mutexLayout, "readme", false, 0, 0, 0},
		{mutexLayout, "lock-", false, 0, 0, 0},
		{mutexLayout, "lock-x", false, 0, 0, 0},
		{mutexLayout, "lock-+5", false, 0, 0, 0},
		{mutexLayout, "lock-4294967296", false, 0, 0, 0},
		{mutexLayout, id + "lease-0000000007", false, 0, 0, 0},
	}
	for _, test := range tests {
		got, ok := test.layout.parse(test.name)
		want := node{}
		if test.ok {
			want = node{name: test.name, seq: test.seq, weight: test.weight, capacity: test.capacity}
		}
		if ok != test.ok || got != want {
			t.Errorf("parse %q in layout %d = %+v, %v; want %+v, %v", test.name, test.layout, got, ok, want, test.ok)
		}
	}
}

// What a claim's node is called says its weight and capacity, and Curator and go-zookeeper find the number in it.
func TestStem(t *testing.T) {
	for _, l := range []layout{mutexLayout, rwLayout, latchLayout} {
		for _, shape := range [][2]int64{
			{driver.All, driver.All}, {1, driver.All}, {2, driver.All}, {1, 1}, {1, 5}, {5, 5}, {driver.All - 1, driver.All},
		} {
			if l == rwLayout && shape[0] != 1 && shape[0] != driver.All || l == rwLayout && shape[1] != driver.All {
				continue
			}
			c := &driver.Claim{ID: "some id", Weight: shape[0], Capacity: shape[1]}
			name := l.stem(c) + "0000000042"
			if got, ok := l.parse(name); !ok || got != (node{name: name, seq: 42, weight: shape[0], capacity: shape[1]}) {
				t.Errorf("%d of %d is named %q, which reads as %+v, %v", shape[0], shape[1], name, got, ok)
			}
			if parts := strings.Split(name, "lock-"); l == mutexLayout && parts[len(parts)-1] != "0000000042" {
				t.Errorf("%q has no number after lock-", name)
			}
			if !strings.HasPrefix(name, guid(c.ID)) || len(guid(c.ID)) != len(id) {
				t.Errorf("%q does not begin with the claim's own %q", name, guid(c.ID))
			}
		}
	}
}

// Overflow: kazoo compared texts (kazoo#606, #730), go-zookeeper could not parse (zk PR #65).
func TestOrderAcrossOverflow(t *testing.T) {
	var names []string
	for _, seq := range []int64{1<<31 - 3, 1<<31 - 2, 1<<31 - 1, -1 << 31, -1<<31 + 1, -1<<31 + 2} {
		names = append(names, fmt.Sprintf("%slock-%010d", id, seq))
	}
	for range 50 {
		mixed := slices.Clone(names)
		rand.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		q, odd := mutexLayout.newQueue(append(mixed, "readme"))
		for i := range q {
			if q[i].name != names[i] {
				t.Fatalf("claim %d is %q; want %q", i, q[i].name, names[i])
			}
		}
		if len(q) != len(names) || !slices.Equal(odd, []string{"readme"}) {
			t.Fatalf("%d claims and %q that are none", len(q), odd)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{id + "lock-0000000007", id + "p3of10-lock--2147483648", "__READ__1", "lock-", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, l := range []layout{mutexLayout, rwLayout, locksLayout} {
			n, ok := l.parse(name)
			if ok && (n.name != name || n.weight < 1 || n.weight > n.capacity || n.capacity > driver.All) {
				t.Errorf("parse %q = %+v", name, n)
			}
		}
	})
}

// The second of mutexes holds when the first is deleted. Where another node can come in its place, it looks.
func TestSucceeds(t *testing.T) {
	const id = "_c_00112233-4455-6677-8899-aabbccddeeff-"
	for _, test := range []struct {
		what   string
		layout layout
		names  []string
		own    int
		want   bool
	}{
		{"the second of two mutexes", mutexLayout, []string{id + "lock-0000000007", id + "lock-0000000008"}, 1, true},
		{"behind go-zookeeper", mutexLayout, []string{"_c_00112233445566778899aabbccddeeff-lock-0000000007", id + "lock-0000000009"}, 1, true},
		{"a reader behind a writer", mutexLayout, []string{id + "lock-0000000007", id + "r-lock-0000000008"}, 1, true},
		{"a permit behind others", mutexLayout, []string{id + "p3of3-lock-0000000007", id + "p1of3-lock-0000000008"}, 1, true},
		{"the second of two latches", latchLayout, []string{id + "latch-0000000007", id + "latch-0000000008"}, 1, true},
		{"the third", mutexLayout, []string{id + "lock-0000000007", id + "lock-0000000008", id + "lock-0000000009"}, 2, false},
		{"the first", mutexLayout, []string{id + "lock-0000000007"}, 0, false},
		{"behind a writer of Curator's", mutexLayout, []string{id + "__WRIT__0000000007", id + "lock-0000000008"}, 1, false},
		{"a writer behind a writer", rwLayout, []string{id + "__WRIT__0000000007", id + "__WRIT__0000000008"}, 1, false},
		{"a permit of a semaphore", leasesLayout, []string{id + "1p3of3-lease-0000000007", id + "1p3of3-lease-0000000008"}, 1, false},
		{"behind kazoo", mutexLayout, []string{"00112233445566778899aabbccddeeff__lock__0000000007", id + "lock-0000000008"}, 1, false},
		{"the same number twice", mutexLayout, []string{id + "lock-2147483647", "_c_x-lock-2147483647"}, 1, false},
		{"at the end of the numbers", mutexLayout, []string{id + "lock-2147483646", id + "lock-2147483647"}, 1, false},
		{"past the end of the numbers", mutexLayout, []string{id + "lock-2147483647", id + "lock--2147483648"}, 1, false},
	} {
		q, odd := test.layout.newQueue(test.names)
		if len(odd) > 0 || len(q) != len(test.names) {
			t.Fatalf("%s: %q are no claims", test.what, odd)
		}
		if got := succeeds(q, test.own); got != test.want {
			t.Errorf("%s: succeeds = %v; want %v", test.what, got, test.want)
		}
	}
}
