package explore

import (
	"slices"
	"sync"
)

// A node is a state as the way to it: the node before it, and the event.
type node struct {
	parent uint32
	ev     packed
}

// nodes are the tree of all states that were seen. Its root is node 0.
type nodes struct {
	mu     sync.Mutex
	blocks [][]node
}

const blockSize = 1 << 14

// block makes room for some nodes, and returns it with the number of the first one.
func (n *nodes) block() (room []node, first uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	room = make([]node, blockSize)
	n.blocks = append(n.blocks, room)
	return room, uint32(len(n.blocks)-1) * blockSize
}

// A tree is the nodes as they are between two levels, when nobody makes room.
type tree [][]node

func (t tree) at(i uint32) *node { return &t[i/blockSize][i%blockSize] }

// A packed event is an event in one word.
type packed uint32

func (e Event) pack() packed {
	p := packed(e.Number)<<13 | packed(e.Kind) | packed(e.Client)<<6 | packed(e.G)<<8
	if e.Copy {
		p |= 1 << 12
	}
	return p
}

func (p packed) event() Event {
	return Event{
		Kind: Kind(p & 63), Client: uint8(p >> 6 & 3), G: uint8(p >> 8 & 15), Copy: p>>12&1 != 0,
		Number: uint32(p >> 13),
	}
}

// A spot is a state that must be expanded. Only some states of a level are kept as worlds. The others are made again from
// their nodes, which takes a few steps each: a level is in the order of the tree, so neighbours share most of their paths.
type spot struct {
	w    *World // nil if it must be made again
	node uint32
}

// A climber makes worlds again. It keeps the worlds on the path to the last one.
type climber struct {
	path []stone
	up   []uint32
}

type stone struct {
	node uint32
	w    *World
}

// climb returns the world of a node at a depth of the tree.
func (c *climber) climb(conf *Config, t tree, n uint32, depth int) *World {
	if len(c.path) == 0 {
		c.path = append(c.path, stone{w: New(conf)})
	}
	for len(c.path) <= depth {
		c.path = append(c.path, stone{node: nowhere, w: &World{enc: &coder{}, again: true}})
	}
	c.up = c.up[:0]
	for c.path[depth].node != n {
		c.up = append(c.up, n)
		n = t.at(n).parent
		depth--
	}
	for _, n := range slices.Backward(c.up) {
		w := c.path[depth].w
		depth++
		at := &c.path[depth]
		if last := at.node; last != nowhere && t.at(last).parent == c.path[depth-1].node {
			at.w.back(w) // it is one step from there
		} else {
			at.w.CopyFrom(w)
		}
		at.node = n
		if err := at.w.Step(t.at(n).ev.event()); err != nil {
			panic(err) // this step had no error the first time
		}
	}
	return c.path[depth].w
}

const nowhere = 1<<32 - 1
