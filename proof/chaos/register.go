//go:build unix

package main

import (
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"sync"
)

// A resource is a counter that the locks protect: a holder reads it at the beginning of a hold, and writes the next number
// at the end. The number of writes less the last value is the number of lost updates.
//
// It is kept in three independent modes, so that one run shows the worth of each: writers do not ask whether they still
// hold; writers ask right before they write; and writes carry the tokens of the holds, where an older token is refused as
// soon as a newer one has read.
type mode int

const (
	plain mode = iota
	asked
	fenced
)

// A register keeps the resources. It is in the runner's process, which no fault hits.
type register struct {
	mu    sync.Mutex // guards what follows
	cells map[cell]*tally
}

type cell struct {
	Name string
	Mode mode
}

// A tally counts the updates of one resource, or of several.
type tally struct {
	Writes  int64 // accepted writes
	Lost    int64 `json:",omitempty"`
	Refused int64 `json:",omitempty"` // writes refused for their tokens

	value, top int64
}

// An Update is a read, or a write of Value.
type Update struct {
	Cell  cell
	Token int64
	Value int64
	Write bool
}

// An Answer is the value after an update, or that it was refused.
type Answer struct {
	Value   int64
	Refused bool
}

// Do makes an update. Workers call it.
func (r *register) Do(u *Update, a *Answer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.cells[u.Cell]
	if c == nil {
		c = &tally{}
		r.cells[u.Cell] = c
	}
	if u.Cell.Mode == fenced {
		if u.Token < c.top {
			a.Refused = true
			c.Refused++
			return nil
		}
		c.top = u.Token
	}
	if u.Write {
		c.Writes++
		c.value = u.Value
	}
	a.Value = c.value
	return nil
}

// sum adds up the resources of a mode.
func (r *register) sum(m mode) *tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := &tally{}
	for at, c := range r.cells {
		if at.Mode == m {
			sum.Writes += c.Writes
			sum.Lost += c.Writes - c.value
			sum.Refused += c.Refused
		}
	}
	return sum
}

// serve serves the register to the workers at the address that it returns, until stop is called.
func (r *register) serve() (addr string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := rpc.NewServer()
	if err := s.RegisterName("Register", r); err != nil {
		return "", nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.ServeCodec(jsonrpc.NewServerCodec(c)) // the worker for Java can speak this protocol too
		}
	}()
	return l.Addr().String(), func() { l.Close() }, nil
}
