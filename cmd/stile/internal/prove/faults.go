package prove

import (
	"context"
	"fmt"
	"time"

	"github.com/stilelock/stile/internal/boottime"
)

// A Kind is a kind of fault. A run makes faults only to its own clients.
type Kind string

// The kinds of faults.
const (
	Pause   Kind = "pause"   // a client that holds stands still, until another holds
	Kill    Kind = "kill"    // a client that holds is killed
	Cut     Kind = "cut"     // the connections of a client that holds are cut, again and again
	Suspend Kind = "suspend" // all clients stand still for longer than their leases, as on a machine that sleeps
)

// Kinds are all kinds.
var Kinds = []Kind{Pause, Kill, Cut, Suspend}

// what describes each kind of fault.
var what = map[Kind]string{
	Pause:   "a client that holds stands still until another client holds",
	Kill:    "a client that holds is killed",
	Cut:     "a client that holds has its connections cut, for up to one and a half times its lease",
	Suspend: "all clients stand still for longer than their leases",
}

// A Fault is a fault that was made.
type Fault struct {
	Kind       Kind
	Worker     int // its slot; -1 for all
	Begin, End time.Duration
	Hit        bool   // it met a client that held, and had its effect
	Final      bool   // trying again would not help
	Why        string // the reason why it did not hit
}

// make makes a fault.
func (r *run) make(ctx context.Context, kind Kind) *Fault {
	f := &Fault{Kind: kind, Worker: -1}
	r.report.Faults = append(r.report.Faults, f)
	h := r.holder(ctx)
	if h == nil {
		f.Begin, f.End = boottime.Now(), boottime.Now()
		f.Why, f.Final = r.notTaken(ctx, "the fault before"), true
		return f
	}
	f.Worker = h.process.slot
	switch kind {
	case Pause:
		r.pause(ctx, f, h)
	case Kill:
		r.kill(ctx, f, h)
	case Cut:
		r.cut(ctx, f, h)
	case Suspend:
		r.suspend(ctx, f, h)
	}
	f.End = boottime.Now()
	return f
}

// holder waits until somebody begins to hold the data, and returns that hold.
func (r *run) holder(ctx context.Context) (h *held) {
	now := boottime.Now()
	r.await(ctx, r.bound, func() bool {
		if h = r.latest(now, nil); h != nil && h.over {
			h = nil
		}
		return h != nil
	})
	return h
}

// latest returns the last hold of the data that began after a time in another process than the given one, or nil.
func (r *run) latest(after time.Duration, not *process) *held {
	for i := len(r.holds) - 1; i >= 0; i-- {
		if h := r.holds[i]; h.Name == dataName && h.Begin > after && h.process != not {
			return h
		}
	}
	return nil
}

// taken waits until another process has begun to hold the data after a time.
func (r *run) taken(ctx context.Context, within, after time.Duration, not *process) bool {
	return r.await(ctx, within, func() bool { return r.latest(after, not) != nil })
}

// pause lets the client go on as soon as another one holds: if the client still trusted its lease then, both would hold. If
// a claim lasts as long as its connection, nobody else holds while the client stands still.
func (r *run) pause(ctx context.Context, f *Fault, h *held) {
	r.still()
	h.process.stop()
	f.Begin = boottime.Now()
	defer r.still()
	defer h.process.resume()
	if f.Why = r.blocks(ctx); f.Why != "" {
		return
	}
	within, keeps := r.bound, r.report.Traits.OwnClient
	if keeps {
		within = r.ttl * 13 / 10
	}
	taken := r.taken(ctx, within, f.Begin, h.process)
	switch over := r.has(func() bool { return h.over }); { // its lines from before the pause have been read by now
	case over:
		f.Why = "the client had given the lock back when it stood still"
	case taken, keeps:
		f.Hit = true
	default: // a thread that was in a system call may have stopped in a lock later
		if f.Why = r.blocks(ctx); f.Why == "" {
			f.Why, f.Final = r.notTaken(ctx, "a client that held stood still"), true
		}
	}
}

// blocks returns how a stopped client blocks all others, which says nothing about the lock: it may have stopped with a
// transaction open, or with one of the run's files locked.
func (r *run) blocks(ctx context.Context) (why string) {
	if unanswered(r.checkFree(ctx, time.Second)) {
		return "the client stood still in the middle of a transaction, and so did the store, for all others"
	}
	for _, name := range []string{controlFile, guardedFile} {
		switch free, err := openRegister(r.dir, name).free(ctx, time.Second); {
		case err != nil:
			return "the files of the run: " + err.Error()
		case !free:
			return "the client stood still while it wrote, and kept the file locked for all others"
		}
	}
	return ""
}

func (r *run) kill(ctx context.Context, f *Fault, h *held) {
	f.Begin = boottime.Now()
	h.process.kill()
	held := !r.has(func() bool { return h.over })
	taken := r.taken(ctx, r.bound, f.Begin, h.process)
	r.replace(h.process.slot)
	switch {
	case !held:
		f.Why = "the client had given the lock back when it was killed"
	case taken:
		f.Hit = true
	default:
		f.Why, f.Final = r.notTaken(ctx, "a client that held was killed"), true
	}
}

// notTaken notes that nobody took the data over although its holder has gone.
func (r *run) notTaken(ctx context.Context, after string) string {
	if ctx.Err() == nil {
		r.find("%s: nobody held within %v after %s", r.name(dataName), r.bound, after)
	}
	return "nobody else held within " + r.bound.String()
}

func (r *run) cut(ctx context.Context, f *Fault, h *held) {
	f.Begin = boottime.Now()
	length := r.ttl/4 + time.Duration(r.random.Int64N(int64(r.ttl)*5/4))
	before := r.cuts(h.process)
	fmt.Fprintf(h.process.in, "cut %d\n", length.Milliseconds())
	count := 0
	done := r.await(ctx, length+10*time.Second, func() bool {
		if len(h.process.cuts) <= before {
			return false
		}
		count = h.process.cuts[before]
		return true
	})
	switch {
	case done && count > 0:
		f.Hit = true
	case done:
		f.Why, f.Final = noConnections, true
	default:
		f.Why = "the client did not answer"
	}
}

func (r *run) cuts(p *process) (n int) {
	r.has(func() bool { n = len(p.cuts); return true })
	return n
}

func (r *run) suspend(ctx context.Context, f *Fault, h *held) {
	r.still()
	defer r.still()
	for _, p := range r.workers {
		p.stop()
		defer p.resume()
	}
	f.Worker, f.Begin = -1, boottime.Now()
	pause(ctx, r.ttl*13/10)
	if f.Hit = !r.has(func() bool { return h.over }); !f.Hit {
		f.Why = "the client had given the lock back when it stood still"
	}
}

// noConnections is the reason why a cut does not hit the clients of a store that is a file.
const noConnections = "the client has no connections"
