package explore

import "sync"

// A set holds hashes, each with a number. Many may use it at once.
type set struct {
	shards [64]shard
}

type shard struct {
	mu    sync.Mutex
	slots []slot
	used  int
}

type slot struct {
	h     Hash
	value uint32 // one more than was given; 0 says that the slot is free
}

func newSet() *set { return &set{} }

// add reports whether the hash was not there.
func (s *set) add(h Hash, value uint32) bool {
	d := &s.shards[h[0]>>58]
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.used*4 >= len(d.slots)*3 {
		d.grow()
	}
	x := d.at(h)
	if x.value != 0 {
		return false
	}
	*x = slot{h, value + 1}
	d.used++
	return true
}

// get returns the number of a hash.
func (s *set) get(h Hash) (value uint32, ok bool) {
	d := &s.shards[h[0]>>58]
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.slots) == 0 {
		return 0, false
	}
	x := d.at(h)
	return x.value - 1, x.value != 0
}

func (s *set) len() (n int64) {
	for i := range s.shards {
		d := &s.shards[i]
		d.mu.Lock()
		n += int64(d.used)
		d.mu.Unlock()
	}
	return n
}

func (d *shard) at(h Hash) *slot {
	mask := uint64(len(d.slots) - 1)
	for i := h[1] & mask; ; i = (i + 1) & mask {
		if x := &d.slots[i]; x.value == 0 || x.h == h {
			return x
		}
	}
}

func (d *shard) grow() {
	old := d.slots
	d.slots = make([]slot, max(64, 2*len(old)))
	for i := range old {
		if old[i].value != 0 {
			*d.at(old[i].h) = old[i]
		}
	}
}
