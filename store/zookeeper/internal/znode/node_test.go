package znode

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
		layout           Layout
		name             string
		ok               bool
		seq              int32
		weight, capacity int64
	}{
		{Mutex, id + "lock-0000000007", true, 7, all, all},
		{Mutex, id + "r-lock-0000000007", true, 7, 1, all},
		{Mutex, id + "p3of10-lock-0000000007", true, 7, 3, 10},
		{Mutex, id + "p2of2147483647-lock-0000000007", true, 7, 2, all},
		{Mutex, id + "lock-2147483647", true, 1<<31 - 1, all, all},
		{Mutex, id + "lock--2147483648", true, -1 << 31, all, all},
		{Mutex, id + "lock--000000005", true, -5, all, all},
		{Mutex, id + "latch-0000000007", true, 7, all, all},
		{Latch, id + "latch-0000000007", true, 7, all, all},
		{Latch, id + "r-latch-0000000007", true, 7, 1, all},
		{Latch, id + "p3of10-latch-0000000007", true, 7, 3, 10},
		{Latch, id + "lock-0000000007", true, 7, all, all},
		{ReadWrite, id + "latch-0000000007", true, 7, all, all},
		// A tag that cannot be read counts as exclusive.
		{Mutex, id + "p0of10-lock-0000000007", true, 7, all, all},
		{Mutex, id + "p11of10-lock-0000000007", true, 7, all, all},
		{Mutex, id + "p03of10-lock-0000000007", true, 7, all, all},
		{Mutex, id + "p3of99999999999-lock-0000000007", true, 7, all, all},
		{Mutex, id + "w-lock-0000000007", true, 7, all, all},
		// Other clients: go-zookeeper, kazoo, .NET, Curator's read-write lock.
		{Mutex, "_c_00112233445566778899aabbccddeeff-lock-0000000007", true, 7, all, all},
		{Mutex, "00112233445566778899aabbccddeeff__lock__0000000007", true, 7, all, all},
		{Mutex, "00112233445566778899aabbccddeeff__rlock__0000000007", true, 7, all, all},
		{Mutex, "lock-0000000007", true, 7, all, all},
		{Mutex, "r-lock-0000000007", true, 7, all, all},
		{Mutex, id + "__WRIT__0000000007", true, 7, all, all},
		{Mutex, id + "__READ__0000000007", true, 7, all, all},
		{ReadWrite, id + "__WRIT__0000000007", true, 7, all, all},
		{ReadWrite, id + "__READ__0000000007", true, 7, 1, all},
		{ReadWrite, id + "lock-0000000007", true, 7, all, all},
		// Names that are no claims.
		{Mutex, "", false, 0, 0, 0},
		{Mutex, "readme", false, 0, 0, 0},
		{Mutex, "lock-", false, 0, 0, 0},
		{Mutex, "lock-x", false, 0, 0, 0},
		{Mutex, "lock-+5", false, 0, 0, 0},
		{Mutex, "lock-4294967296", false, 0, 0, 0},
		{Mutex, id + "lease-0000000007", false, 0, 0, 0},
	}
	for _, test := range tests {
		got, ok := test.layout.Parse(test.name)
		want := Node{}
		if test.ok {
			want = Node{Name: test.name, Seq: test.seq, Weight: test.weight, Capacity: test.capacity}
		}
		if ok != test.ok || got != want {
			t.Errorf("parse %q in layout %d = %+v, %v; want %+v, %v", test.name, test.layout, got, ok, want, test.ok)
		}
	}
}

// The name of a claim's node contains weight and capacity, and Curator and go-zookeeper find the number in it.
func TestStem(t *testing.T) {
	for _, l := range []Layout{Mutex, ReadWrite, Latch} {
		for _, shape := range [][2]int64{
			{driver.All, driver.All}, {1, driver.All}, {2, driver.All}, {1, 1}, {1, 5}, {5, 5}, {driver.All - 1, driver.All},
		} {
			if l == ReadWrite && shape[0] != 1 && shape[0] != driver.All || l == ReadWrite && shape[1] != driver.All {
				continue
			}
			c := &driver.Claim{ID: "some id", Weight: shape[0], Capacity: shape[1]}
			name := l.Stem(c) + "0000000042"
			if got, ok := l.Parse(name); !ok || got != (Node{Name: name, Seq: 42, Weight: shape[0], Capacity: shape[1]}) {
				t.Errorf("%d of %d is named %q, which reads as %+v, %v", shape[0], shape[1], name, got, ok)
			}
			if parts := strings.Split(name, "lock-"); l == Mutex && parts[len(parts)-1] != "0000000042" {
				t.Errorf("%q has no number after lock-", name)
			}
			if !strings.HasPrefix(name, GUID(c.ID)) || len(GUID(c.ID)) != len(id) {
				t.Errorf("%q does not begin with the claim's own %q", name, GUID(c.ID))
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
		q, odd := Mutex.NewQueue(append(mixed, "readme"))
		for i := range q {
			if q[i].Name != names[i] {
				t.Fatalf("claim %d is %q; want %q", i, q[i].Name, names[i])
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
		for _, l := range []Layout{Mutex, ReadWrite, Locks} {
			n, ok := l.Parse(name)
			if ok && (n.Name != name || n.Weight < 1 || n.Weight > n.Capacity || n.Capacity > driver.All) {
				t.Errorf("parse %q = %+v", name, n)
			}
		}
	})
}

// The second of two mutexes holds when the first is deleted. If another node can replace the first, the claim must look.
func TestSucceeds(t *testing.T) {
	const id = "_c_00112233-4455-6677-8899-aabbccddeeff-"
	for _, test := range []struct {
		what   string
		layout Layout
		names  []string
		own    int
		want   bool
	}{
		{"the second of two mutexes", Mutex, []string{id + "lock-0000000007", id + "lock-0000000008"}, 1, true},
		{
			"behind go-zookeeper", Mutex,
			[]string{"_c_00112233445566778899aabbccddeeff-lock-0000000007", id + "lock-0000000009"}, 1, true,
		},
		{"a reader behind a writer", Mutex, []string{id + "lock-0000000007", id + "r-lock-0000000008"}, 1, true},
		{"a permit behind others", Mutex, []string{id + "p3of3-lock-0000000007", id + "p1of3-lock-0000000008"}, 1, true},
		{"the second of two latches", Latch, []string{id + "latch-0000000007", id + "latch-0000000008"}, 1, true},
		{"the third", Mutex, []string{id + "lock-0000000007", id + "lock-0000000008", id + "lock-0000000009"}, 2, false},
		{"the first", Mutex, []string{id + "lock-0000000007"}, 0, false},
		{"behind a writer of Curator's", Mutex, []string{id + "__WRIT__0000000007", id + "lock-0000000008"}, 1, false},
		{"a writer behind a writer", ReadWrite, []string{id + "__WRIT__0000000007", id + "__WRIT__0000000008"}, 1, false},
		{"a permit of a semaphore", Leases, []string{id + "1p3of3-lease-0000000007", id + "1p3of3-lease-0000000008"}, 1, false},
		{"behind kazoo", Mutex, []string{"00112233445566778899aabbccddeeff__lock__0000000007", id + "lock-0000000008"}, 1, false},
		{"the same number twice", Mutex, []string{id + "lock-2147483647", "_c_x-lock-2147483647"}, 1, false},
		{"at the end of the numbers", Mutex, []string{id + "lock-2147483646", id + "lock-2147483647"}, 1, false},
		{"past the end of the numbers", Mutex, []string{id + "lock-2147483647", id + "lock--2147483648"}, 1, false},
	} {
		q, odd := test.layout.NewQueue(test.names)
		if len(odd) > 0 || len(q) != len(test.names) {
			t.Fatalf("%s: %q are no claims", test.what, odd)
		}
		if got := Succeeds(q, test.own); got != test.want {
			t.Errorf("%s: succeeds = %v; want %v", test.what, got, test.want)
		}
	}
}
