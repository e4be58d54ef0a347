//go:build unix

package main

import (
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"sync"
)

// A resource is a counter that the locks protect: a holder reads it at the beginning of a hold, and writes one more at the end.
// As many updates are lost as were written and are not counted.
//
// It is kept in three modes, each for itself, so that one run shows what each is worth: by writers that do not ask whether they
// still hold, by writers that ask right before, and with the tokens of the holds, older ones being refused from the moment a
// newer one has read.
type mode int

const (
	plain mode = iota
	asked
	fenced
)

// A register keeps the resources. It is in the process of the runner, which no fault hits.
type register struct {
	mu    sync.Mutex // guards what follows
	cells map[cell]*tally
}

type cell struct {
	Name string
	Mode mode
}

// A tally is what became of the updates of one resource, or of several.
type tally struct {
	Writes  int64 // that were accepted
	Lost    int64 `json:",omitempty"`
	Refused int64 `json:",omitempty"` // for their tokens

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

// Do carries out an update. It is called by workers.
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

// serve has workers find the register at the address that it returns, until stop is called.
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
			go s.ServeCodec(jsonrpc.NewServerCodec(c)) // which the worker for Java can speak too
		}
	}()
	return l.Addr().String(), func() { l.Close() }, nil
}
