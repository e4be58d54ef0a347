//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/proof/bench/fleet/model"
)

// childEnv is the environment variable with a child's task.
const childEnv = "STILE_FLEET_CHILD"

// A task says which clients a child has, numbered from First on.
type task struct {
	URL   string
	First int
	Count int
}

// An order is an order to a child for all of its clients.
type order struct {
	Do     string // open, warm, hold, lead, wait, lock, rest
	Rate   float64
	Spread time.Duration // the time over which repeated renewals and requests of the claims are spread
}

// A child is this program in another process. It ends when its standard input does.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	in    *json.Encoder
	out   *json.Decoder
}

func startChild(t *task) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program)
	cmd.Env, cmd.Stderr = append(os.Environ(), childEnv+"="+string(text)), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &child{cmd, in, json.NewEncoder(in), json.NewDecoder(out)}, cmd.Start()
}

// end ends a child, and its clients with it.
func (c *child) end() {
	c.stdin.Close()
	late := time.AfterFunc(time.Minute, func() { c.cmd.Process.Kill() })
	c.cmd.Wait()
	late.Stop()
}

// runChild obeys a parent's orders, if this process is a child, and reports whether it is.
func runChild() bool {
	text := os.Getenv(childEnv)
	if text == "" {
		return false
	}
	var t task
	err := json.Unmarshal([]byte(text), &t)
	if err == nil {
		err = t.serve(json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "fleet: clients %d to %d: %v\n", t.First, t.First+t.Count-1, err)
		os.Exit(1)
	}
	return true
}

// serve obeys orders until there are no more, and answers each with an error's text, or "". It does not close the clients
// in the end, since the server may be gone by then, and the process is about to end.
func (t *task) serve(in *json.Decoder, out *json.Encoder) error {
	part := &part{task: t}
	for {
		var o order
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		said := ""
		if err := part.obey(&o); err != nil {
			said = err.Error()
		}
		if err := out.Encode(said); err != nil {
			return err
		}
	}
}

// A part is one child's clients.
type part struct {
	*task
	clients []*stile.Client
	leases  []*stile.Lease
	waits   chan struct{} // gets a message for each claim that begins or ends to wait; it has room for all

	cancel context.CancelFunc // ends the goroutines' work; nil while there is none
	ctx    context.Context
	busy   sync.WaitGroup
	mu     sync.Mutex // guards failed
	failed error
}

func (p *part) obey(o *order) error {
	if o.Do != "open" && o.Do != "rest" && p.cancel == nil {
		p.ctx, p.cancel = context.WithCancel(context.Background())
	}
	switch o.Do {
	case "open":
		return p.open()
	case "warm":
		return p.all(func(i int) error { return p.lockOnce(i) })
	case "hold":
		return p.hold(o, "own/%d", 1)
	case "lead":
		return p.hold(o, "group/%d", model.Group)
	case "wait":
		p.wait(o)
		return nil
	case "lock":
		p.lock(o.Rate)
		return nil
	case "rest":
		return p.rest()
	}
	return fmt.Errorf("no order is called %q", o.Do)
}

// due waits until it is a client's turn, so that claims that were made one after the other do not all send requests at the
// same moment.
func (p *part) due(i int, o *order, begin time.Time) {
	time.Sleep(time.Until(begin.Add(o.Spread * time.Duration(i) / time.Duration(p.Count))))
}

// all runs do for each client, a few at a time.
func (p *part) all(do func(i int) error) error {
	errs, few := make([]error, p.Count), make(chan struct{}, 4)
	var done sync.WaitGroup
	for i := range p.Count {
		few <- struct{}{}
		done.Go(func() {
			errs[i] = do(i)
			<-few
		})
	}
	done.Wait()
	return errors.Join(errs...)
}

func (p *part) open() error {
	p.clients, p.waits = make([]*stile.Client, p.Count), make(chan struct{}, 2*p.Count)
	o := &stile.Options{Patience: time.Minute, Observer: func(e stile.Event) {
		if e.Kind == stile.EventWaiting {
			p.came()
		}
	}}
	return p.all(func(i int) (err error) {
		p.clients[i], err = stile.Open(context.Background(), p.URL, o)
		return err
	})
}

func (p *part) came() {
	select {
	case p.waits <- struct{}{}:
	default:
	}
}

func (p *part) lockOnce(i int) error {
	lease, err := p.clients[i].Mutex(fmt.Sprintf("free/%d", p.First+i)).Lock(context.Background())
	if err != nil {
		return err
	}
	return lease.Unlock()
}

// hold makes one client in a group of this size take a name.
func (p *part) hold(o *order, name string, of int) error {
	var mu sync.Mutex
	begin := time.Now()
	return p.all(func(i int) error {
		n := p.First + i
		if n%of != 0 {
			return nil
		}
		p.due(i, o, begin)
		lease, err := p.clients[i].Mutex(fmt.Sprintf(name, n/of)).Lock(context.Background())
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		p.leases = append(p.leases, lease)
		return nil
	})
}

// wait makes all clients except the first of each group wait for their group's name, one after the other, since a server
// only accepts some new connections at a time. It returns when all of them wait.
func (p *part) wait(o *order) {
	for len(p.waits) > 0 {
		<-p.waits
	}
	begin, all := time.Now(), 0
	for i, c := range p.clients {
		n := p.First + i
		if n%model.Group == 0 {
			continue
		}
		p.due(i, o, begin)
		all++
		p.busy.Go(func() {
			defer p.came()
			lease, err := c.Mutex(fmt.Sprintf("group/%d", n/model.Group)).Lock(p.ctx)
			if err == nil {
				err = errors.Join(errors.New("a waiter had a name that was held"), lease.Unlock())
			}
			p.fail(err)
		})
	}
	for range all {
		<-p.waits
	}
}

// lock makes each client lock and unlock at random moments.
func (p *part) lock(rate float64) {
	for i := range p.clients {
		p.busy.Go(func() {
			for {
				pause := time.Duration(rand.ExpFloat64() / rate * float64(time.Second))
				select {
				case <-time.After(pause):
				case <-p.ctx.Done():
					return
				}
				if err := p.lockOnce(i); err != nil {
					p.fail(err)
					return
				}
			}
		})
	}
}

func (p *part) fail(err error) {
	if err == nil || p.ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = errors.Join(p.failed, err)
}

// rest ends the clients' work, and returns the errors since the last call, including lost leases.
func (p *part) rest() error {
	if p.cancel == nil {
		return nil
	}
	p.cancel()
	p.busy.Wait()
	errs := []error{p.failed}
	for _, lease := range p.leases {
		errs = append(errs, lease.Unlock())
	}
	p.leases, p.cancel, p.failed = nil, nil, nil
	return errors.Join(errs...)
}

// moreFiles raises the limit of open files, and so of connections, for this process and its children.
func moreFiles() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}
