package curator

import (
	"slices"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

const foreignID = "_c_00112233-4455-6677-8899-aabbccddeeff-"

// TestSemaphoreNames reads the names of the nodes of a semaphore's claims.
func TestSemaphoreNames(t *testing.T) {
	const all = driver.All
	for _, shape := range [][2]int64{{all, all}, {1, all}, {3, 10}, {1, 1}, {znode.MaxPermits, znode.MaxPermits}} {
		c := &driver.Claim{ID: "some id", Weight: shape[0], Capacity: shape[1], TTL: 1, Wait: 1}
		w := newWholeClaim("/stile/n", c)
		locks := znode.Locks.Stem(w.lockPartLocked(c)) + "0000000042"
		leases := znode.Leases.Stem(w.permitLocked(c, 0)) + "0000000007"
		for word, name := range map[string]string{znode.LockWord: locks, znode.LeaseWord: leases} {
			key, weight, capacity, ok := znode.ReadTag(name, word)
			if key != znode.GUID(c.ID) || weight != shape[0] || capacity != shape[1] || !ok {
				t.Errorf("%q is of %q, %d of %d, %v; want %q, %v", name, key, weight, capacity, ok, znode.GUID(c.ID), shape)
			}
		}
		if n, ok := znode.Locks.Parse(locks); !ok || n != (znode.Node{Name: locks, Seq: 42, Weight: all, Capacity: all}) {
			t.Errorf("%q is %+v, %v; want number 42, and alone", locks, n, ok)
		}
		want := znode.Node{Name: leases, Seq: 7, Weight: min(1, shape[0]), Capacity: shape[1]}
		if shape[0] == all {
			want.Weight = all
		}
		if n, ok := znode.Leases.Parse(leases); !ok || n != want {
			t.Errorf("%q is %+v, %v; want %+v", leases, n, ok, want)
		}
	}
	for _, name := range []string{
		foreignID + "lease-0000000007", "lease-0000000007", foreignID + "p3of10-x-lease-0000000007",
		foreignID + "1p03of10-lease-0000000007", foreignID + "1p11of10-lease-0000000007", foreignID + "1p3of0-lease-0000000007",
		"_c_00112233445566778899aabbccddeeff-1x-lease-0000000007",
	} {
		if _, weight, capacity, ok := znode.ReadTag(name, znode.LeaseWord); ok {
			t.Errorf("%q is of stile, and wants %d of %d; want another client's", name, weight, capacity)
		}
	}
}

// TestLine merges the nodes under both parents.
func TestLine(t *testing.T) {
	nodes := func(id string, weight, capacity int64, number string) (lock string, leases []string) {
		c := &driver.Claim{ID: id, Weight: weight, Capacity: capacity, TTL: 1, Wait: 1}
		w := newWholeClaim("/stile/n", c)
		for i := range w.size {
			leases = append(leases, znode.Leases.Stem(w.permitLocked(c, i))+number)
		}
		return znode.Locks.Stem(w.lockPartLocked(c)) + number, leases
	}
	lockA, leasesA := nodes("a", 2, 4, "0000000001")
	lockB, leasesB := nodes("b", 1, 4, "0000000003")
	lockM, leasesM := nodes("m", driver.All, driver.All, "0000000004")
	foreign, foreignLock := foreignID+"lease-0000000002", foreignID+"lock-0000000002"
	tests := []struct {
		what          string
		locks, leases []string
		weights       []int64
		capacity      int64
		holding       int
	}{
		{"nobody", nil, nil, nil, 0, 0},
		{"one claim of two permits", nil, leasesA, []int64{2}, 4, 1},
		{"a claim that passes is there once", []string{lockA}, leasesA, []int64{2}, 4, 1},
		{"a claim of another client is a permit", []string{lockB}, append([]string{foreign}, leasesA...), []int64{2, 1, 1}, 4, 3},
		{"who waits is behind", []string{lockB, lockA}, []string{foreign}, []int64{1, 2, 1}, 4, 3},
		{"a mutex", []string{foreignLock}, leasesM, []int64{driver.All, driver.All}, driver.All, 1},
		{"a mutex behind another client", []string{lockM}, []string{foreign}, []int64{driver.All, driver.All}, driver.All, 1},
		{"another capacity waits", []string{lockM}, leasesB, []int64{1, driver.All}, 4, 1},
		{"others alone", []string{foreignLock}, []string{foreign}, []int64{1, 1}, 0, 2},
	}
	for _, test := range tests {
		l, odd := newBundles(append(test.locks, "notes"), append(test.leases, "readme"))
		var weights []int64
		for _, b := range l {
			weights = append(weights, b.weight)
		}
		if !slices.Equal(weights, test.weights) || l.capacity() != test.capacity || l.holding() != test.holding {
			t.Errorf("%s: weights %d of %d, %d hold; want %d of %d, %d hold", test.what,
				weights, l.capacity(), l.holding(), test.weights, test.capacity, test.holding)
		}
		if !slices.Equal(odd, []string{"readme", "notes"}) {
			t.Errorf("%s: %q are no claims; want readme and notes", test.what, odd)
		}
	}
}
