package redis

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

const (
	// crowded is beside how many calls under way a claim enters or leaves with others.
	//
	// With 4, 8, 16 and 24 goroutines on as many names a lock and unlock takes 38, 31, 24 and 25 µs so, and took 50, 36, 34 and 29
	// when it was 20, and whoever leads let no others run before each script; of the server's processor it takes 15, 11, 10 and 10, and
	// took 22, 17, 16 and 12. With 2 and with 64 it is as long (on a busy machine, in turns of 60 ms, as -bench Pair does).
	crowded = 2

	// How many scripts of a crowd are under way at once, unless as many claims wait as one takes. While many calls are under way there are
	// few of them, so that many claims share one, unless the server takes long to answer, as it does far away. Else nobody waits for
	// another's answer.
	thronged   = 20
	crowdsNear = 2
	crowdsFar  = 8
)

// A crowd is claims on as many names of one server that enter together, or leave together, by one script. The script does what it
// does only for a claim that nobody else is before or behind, so it wakes nobody; it leaves the others over, each to a script of
// its own. It does for each claim what a script for that claim would do at the same moment, whatever it does for the others.
//
// If the outcome of a script is unknown, it is for each of its claims. The claims share nothing else: each has an id of its own,
// by which it enters again or leaves, and which is not used again. The script is not the call of one of them. Whoever no longer
// waits gives up alone, before it is sent, or after that with an unknown outcome, and the others go on.
type crowd struct {
	least  int // calls under way for the crowd to form
	conn   *conn.Conn
	script *conn.Script
	key    string // any that the user may ask for

	mu      sync.Mutex    // guards what follows
	waiting []*member     // that no script has taken along
	scripts int           // under way, or about to be
	coming  int           // those of them that have not taken members along
	took    time.Duration // the last one
}

// A member is one claim of a crowd.
type member struct {
	key, id string
	args    [3]string // of the script, as many as that has of each claim
	n       int
	told    chan told // has room for one
}

// told is what a member hears: it is done, since when by the server's clock; or it failed; or neither, and it is left over.
type told struct {
	done bool
	at   int64
	err  error
}

var idleMembers = sync.Pool{New: func() any { return &member{told: make(chan told, 1)} }}

// forms reports whether so many calls are under way that a crowd forms.
func (w *crowd) forms() bool { return w.conn.Calls() >= w.least && !w.conn.Spread() }

// run has a claim go with others.
func (w *crowd) run(ctx context.Context, key, id string, args ...string) told {
	if err := driver.Ended(ctx, false); err != nil {
		return told{err: err}
	}
	one := idleMembers.Get().(*member)
	one.key, one.id, one.n = key, id, copy(one.args[:], args)
	if !w.join(one) {
		return told{}
	}
	wait, over := w.conn.Share(ctx)
	defer wait.Release()
	select {
	case t := <-one.told:
		*one = member{told: one.told}
		idleMembers.Put(one)
		return t
	case <-over:
	}
	return told{err: w.conn.GaveUp(ctx, !w.quit(one))}
}

// join adds a member, and reports whether it did.
func (w *crowd) join(one *member) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	most := crowdsNear
	if w.took >= far || w.conn.Calls() < thronged {
		most = crowdsFar
	}
	if w.coming == 0 && w.scripts < most || len(w.waiting) >= together {
		if !w.conn.Go(w.lead) {
			return false
		}
		w.scripts++
		w.coming++
	}
	w.waiting = append(w.waiting, one)
	return true
}

// quit removes a member, and reports whether no script has taken it along.
func (w *crowd) quit(one *member) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.waiting, one)
	if i >= 0 {
		w.waiting = slices.Delete(w.waiting, i, i+1)
	}
	return i >= 0
}

// lead runs scripts as long as some wait.
func (w *crowd) lead() {
	for room := make([]*member, 0, together); ; w.comeAgain() {
		runtime.Gosched() // to others that are about to come: the answers to their last calls came together
		taken := room
		var begin time.Time
		a, err := w.conn.RunGathered(w.conn.Context(), w.script, w.key, func() (keys, args []string) {
			begin, taken = time.Now(), w.take(room)
			return packed(taken)
		})
		if begin.IsZero() { // there is no connection
			begin, taken = time.Now(), w.take(room)
		}
		if len(taken) == 0 {
			return
		}
		w.note(begin)
		at, done, err := parseCrowd(a, len(taken), err)
		if errors.Is(err, conn.ErrOther) {
			err = w.conn.Mixed()
		}
		for i, one := range taken {
			one.told <- told{err == nil && done[i] == '1', at, err}
		}
	}
}

// comeAgain is before whoever leads takes members along again.
func (w *crowd) comeAgain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.coming++
}

// take takes members for one script along. If there are none, whoever leads them ends.
func (w *crowd) take(room []*member) []*member {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.waiting), together)
	room = append(room, w.waiting[:n]...)
	w.coming--
	if w.waiting = slices.Delete(w.waiting, 0, n); n == 0 {
		w.scripts--
	}
	return room
}

// note notes how long a script took that began some time ago.
func (w *crowd) note(begin time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.took = time.Since(begin)
}

// packed returns what a script is given of its members.
func packed(taken []*member) (keys, args []string) {
	for i, one := range taken {
		if i == 0 {
			keys, args = make([]string, 0, len(taken)), make([]string, 1, 1+len(taken)*one.n)
			args[0] = one.id
		}
		keys, args = append(keys, one.key), append(args, one.args[:one.n]...)
	}
	return keys, args
}

// parseCrowd takes an answer apart: the time, and a 1 for each member that is done.
func parseCrowd(a conn.Answer, n int, err error) (at int64, done string, _ error) {
	if err != nil {
		if driver.OutcomeOf(err) == driver.OutcomeRefused { // by the server, which may take each by itself
			return 0, strings.Repeat("0", n), nil
		}
		return 0, "", err
	}
	return parseCrowdText(a.Text(0), n)
}

func parseCrowdText(text string, n int) (at int64, done string, err error) {
	end := strings.LastIndexByte(text, '\n')
	at, ok := quickText(text[:max(0, end)])
	if done = text[end+1:]; !ok || len(done) != n || strings.Trim(done, "01") != "" {
		return 0, "", conn.ErrOther
	}
	return at, done, nil
}
