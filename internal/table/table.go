// Package table finds values by the names that the values know themselves. A map would store each name a second time, which
// matters for many small values. A caller that uses a name often hashes it only once.
package table

// Named is a pointer to a value that knows its name and the name's hash. Neither changes while the value is in a table.
type Named[T any] interface {
	*T
	Name() string
	Hash() uint64
}

// A Table is values by name: open addressing with linear probing, at most three quarters full. The zero Table is empty.
//
// Invariant: no slot is empty between the slot that a value's name hashes to and the value's slot.
type Table[T any, P Named[T]] struct {
	slots []P // a power of two in number; nil where empty
	used  int
}

const least = 8

// Len returns the number of values.
func (t *Table[T, P]) Len() int { return t.used }

// Get returns the value of a name with this hash, or nil.
func (t *Table[T, P]) Get(name string, hash uint64) P {
	if t.used == 0 {
		return nil
	}
	return t.slots[t.find(name, hash)]
}

// Add adds a value whose name, with this hash, is not in the table.
func (t *Table[T, P]) Add(value P, hash uint64) {
	if 4*(t.used+1) > 3*len(t.slots) {
		t.resize(max(least, 2*len(t.slots)))
	}
	t.slots[t.find(value.Name(), hash)] = value
	t.used++
}

func (t *Table[T, P]) put(value P) { t.slots[t.find(value.Name(), value.Hash())] = value }

// Remove removes a value that is in the table.
func (t *Table[T, P]) Remove(value P) {
	hole := t.find(value.Name(), value.Hash())
	t.slots[hole] = nil
	t.used--
	// The values after the hole, up to the next empty slot, may belong before it.
	for i := t.next(hole); t.slots[i] != nil; i = t.next(i) {
		value := t.slots[i]
		t.slots[i] = nil
		t.put(value)
	}
	if len(t.slots) > least && 8*t.used < len(t.slots) {
		t.resize(len(t.slots) / 2)
	}
}

// All returns the values in no order. They may be removed from the table meanwhile.
func (t *Table[T, P]) All() []P {
	all := make([]P, 0, t.used)
	for _, value := range t.slots {
		if value != nil {
			all = append(all, value)
		}
	}
	return all
}

// find returns the slot of a name, or the empty slot for a value of that name.
func (t *Table[T, P]) find(name string, hash uint64) int {
	i := int(hash & uint64(len(t.slots)-1))
	for t.slots[i] != nil && t.slots[i].Name() != name {
		i = t.next(i)
	}
	return i
}

func (t *Table[T, P]) next(i int) int { return (i + 1) & (len(t.slots) - 1) }

func (t *Table[T, P]) resize(size int) {
	old := t.slots
	t.slots = make([]P, size)
	for _, value := range old {
		if value != nil {
			t.put(value)
		}
	}
}
