//go:build unix

package main

import (
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"sync"

	"github.com/stilelock/stile/internal/servertest"
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

// openRegister serves a new register, until stop is called.
func openRegister(t servertest.TB) (r *register, addr string, stop func()) {
	r = &register{cells: map[cell]*tally{}}
	addr, stop, err := r.serve()
	if err != nil {
		t.Fatalf("the register: %v", err)
	}
	return r, addr, stop
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

// A desk is a worker's way to the register.
type desk struct{ calls *rpc.Client }

// reach connects to the register at an address.
func reach(addr string) (*desk, error) {
	c, err := jsonrpc.Dial("tcp", addr)
	return &desk{c}, err
}

// read reads the resources of a name in some modes. A resource that is missing in its answer must not be written.
func (d *desk) read(name string, token int64, modes ...mode) map[mode]*Update {
	seen := map[mode]*Update{}
	for _, m := range modes {
		var a Answer
		u := &Update{Cell: cell{name, m}, Token: token}
		if err := d.calls.Call("Register.Do", u, &a); err == nil && !a.Refused {
			seen[m] = &Update{u.Cell, token, a.Value + 1, true}
		}
	}
	return seen
}

// write makes an update that read returned; nil means none.
func (d *desk) write(u *Update) {
	if u != nil {
		_ = d.calls.Call("Register.Do", u, &Answer{}) // the register counts refused writes
	}
}
