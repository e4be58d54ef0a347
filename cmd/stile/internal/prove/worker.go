package prove

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
)

// The locked names, below the prefix.
const (
	mutexName   = "mutex"
	readersName = "readers"
	permitsName = "permits"
	dataName    = "data" // guards the two files of [register]
)

// permits is the capacity of permitsName.
const permits = 3

// A Brief is a worker's instructions.
type Brief struct {
	Prefix string
	TTL    time.Duration
	Seed   uint64
	Dir    string // the folder of the files
	Tokens bool   // the store's tokens can be compared
}

// A worker is a process that locks and unlocks until its input ends. It reports its beliefs, a line each:
//
//	begin HOLD NAME WEIGHT TOKEN TIME WAITED
//	still HOLD TIME
//	free HOLD TIME         the lock is about to be given back
//	lost HOLD TIME         the lock was no longer held
//	refused TOKEN          the guarded file refused a write
//	cut COUNT              the number of connections cut
//	error TEXT
//
// The line "cut MILLISECONDS" in its input makes it cut its connections for that time.
type worker struct {
	*Brief
	mu    sync.Mutex // guards the fields below
	out   *bufio.Writer
	holds int
}

func (w *worker) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w.out, format+"\n", args...)
	w.out.Flush()
}

// Work is the program of a worker process.
func Work(
	ctx context.Context, b *Brief, open func(context.Context) (*stile.Client, error), in io.Reader, out io.Writer,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &worker{Brief: b, out: bufio.NewWriter(out)}
	go func() {
		defer cancel()
		w.obey(in)
	}()
	c, err := w.open(ctx, open)
	if err != nil {
		return nil // the worker was ended before the store was open
	}
	var all sync.WaitGroup
	all.Go(func() { w.loop(ctx, []way{w.data(c)}, 0) })
	for g := range uint64(3) {
		all.Go(func() { w.loop(ctx, w.ways(c), g+1) })
	}
	all.Wait()
	return c.Close()
}

// open opens the store, without a time limit: the process that started this one has opened it before.
func (w *worker) open(ctx context.Context, open func(context.Context) (*stile.Client, error)) (*stile.Client, error) {
	for {
		c, err := open(ctx)
		if err == nil || ctx.Err() != nil {
			return c, err
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// obey carries out the lines of the input until it ends.
func (w *worker) obey(in io.Reader) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var ms int
		if n, _ := fmt.Sscanf(lines.Text(), "cut %d", &ms); n == 1 {
			go func() { w.say("cut %d", cutConnections(time.Duration(ms)*time.Millisecond)) }()
		}
	}
}

// A holding is one hold of a worker.
type holding struct {
	id     int
	lease  *stile.Lease
	waited time.Duration
}

// A way is a way to lock a name, with the work under the lock.
type way struct {
	lock *stile.Lock
	work func(ctx context.Context, h *holding)
}

func (w *worker) with(l *stile.Lock) *stile.Lock {
	return l.With(stile.LockOptions{TTL: w.TTL, Owner: "stile prove"})
}

func (w *worker) name(name string) string { return w.Prefix + "/" + name }

func (w *worker) data(c *stile.Client) way {
	return way{w.with(c.Mutex(w.name(dataName))), w.increment}
}

func (w *worker) ways(c *stile.Client) []way {
	list := []way{
		{w.with(c.Mutex(w.name(mutexName))), w.keeps(mutexName, driver.All)},
		{w.with(c.Writer(w.name(readersName))), w.keeps(readersName, driver.All)},
	}
	if c.Traits().Shared {
		list = append(list, way{w.with(c.Reader(w.name(readersName))), w.keeps(readersName, 1)})
	}
	if c.Traits().Permits {
		list = append(list, way{w.with(c.Permit(w.name(permitsName), 1, permits)), w.keeps(permitsName, 1)})
	}
	return list
}

// loop takes random locks one after the other, until ctx ends.
func (w *worker) loop(ctx context.Context, list []way, number uint64) {
	random := rand.New(rand.NewPCG(w.Seed, number))
	for ctx.Err() == nil {
		k := list[random.IntN(len(list))]
		patient, cancel := context.WithTimeout(ctx, 2*w.TTL+time.Duration(random.Int64N(int64(w.TTL))))
		begun := boottime.Now()
		lease, err := k.lock.Lock(patient)
		cancel()
		switch {
		case err == nil:
			w.hold(ctx, k, lease, boottime.Now()-begun)
		case !expected(err) && ctx.Err() == nil:
			w.say("error %s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		pause(ctx, time.Duration(random.IntN(10))*time.Millisecond)
	}
}

// expected reports whether a fault may cause this error of a call.
func expected(err error) bool {
	for _, e := range []error{stile.ErrHeld, stile.ErrLost, stile.ErrUnknown, stile.ErrUnreachable, context.DeadlineExceeded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// hold does the work of a lock, and releases the lock.
func (w *worker) hold(ctx context.Context, k way, lease *stile.Lease, waited time.Duration) {
	w.mu.Lock()
	w.holds++
	h := &holding{w.holds, lease, waited}
	w.mu.Unlock()
	k.work(ctx, h)
	word, now := "lost", boottime.Now()
	if lease.Check() == nil {
		word = "free"
	}
	w.say("%s %d %d", word, h.id, now)
	_ = lease.Unlock() // the error is about the lease's end, and the history has the beliefs about it
}

// begin reports that a lock is held. The time was read before the lease was checked.
func (w *worker) begin(h *holding, name string, weight int64, at time.Duration) {
	w.say("begin %d %s %d %d %d %d", h.id, name, weight, h.lease.Ticket(), at, h.waited)
}

// keeps returns the work of holding a name for a moment.
func (w *worker) keeps(name string, weight int64) func(ctx context.Context, h *holding) {
	return func(ctx context.Context, h *holding) {
		if at := boottime.Now(); h.lease.Check() == nil {
			w.begin(h, name, weight, at)
			w.think(ctx, h, rand.N(30*time.Millisecond))
		}
	}
}

// think takes a while, and reports how long the lease was trusted.
func (w *worker) think(ctx context.Context, h *holding, length time.Duration) {
	for end := boottime.Now() + length; boottime.Now() < end && ctx.Err() == nil; {
		pause(ctx, 5*time.Millisecond)
		if now := boottime.Now(); h.lease.Check() == nil {
			w.say("still %d %d", h.id, now)
		}
	}
}

// increment adds one to the number in two files, like a program after its last check of the lease: it reads, thinks, and
// writes. The token guards one of the files.
func (w *worker) increment(ctx context.Context, h *holding) {
	at := boottime.Now()
	if h.lease.Check() != nil {
		return
	}
	token := h.lease.Ticket()
	control, guarded := openRegister(w.Dir, controlFile), openRegister(w.Dir, guardedFile)
	before, err := control.read()
	var under int64
	stale := false
	if err == nil && w.Tokens {
		under, stale, err = guarded.raise(token)
	}
	if err != nil {
		w.failed(err)
		return
	}
	// From here on a fault may stop this process: the files have been read, but not written.
	w.begin(h, dataName, driver.All, at)
	w.think(context.WithoutCancel(ctx), h, thinking)
	err = control.write(before + 1)
	if err == nil && w.Tokens && !stale {
		stale, err = guarded.writeWith(token, under+1)
	}
	if stale {
		w.say("refused %d", token)
	}
	w.failed(err)
}

// thinking is how long a holder of the data thinks: long enough for a stop in between.
const thinking = 60 * time.Millisecond

func (w *worker) failed(err error) {
	if err != nil {
		w.say("error the files of the run: %v", err)
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
