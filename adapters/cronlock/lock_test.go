package cronlock

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

// A machine is a locker with a client of its own, and its log.
type machine struct {
	*Locker
	client *stile.Client
	log    chan string
}

func (m machine) Info(text string, pairs ...any)             { m.log <- "info: " + text + fmt.Sprint(pairs...) }
func (m machine) Error(err error, text string, pairs ...any) { m.log <- "error: " + err.Error() }

// machines returns n machines on one store.
func machines(t *testing.T, n int, o Options) (list []machine) {
	t.Helper()
	store := memory.NewStore()
	for range n {
		c, err := stile.New(store.Driver(), &stile.Options{LockOptions: stile.LockOptions{TTL: 9 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		m := machine{client: c, log: make(chan string, 10)}
		o.Logger = m
		if m.Locker, err = New(c, &o); err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}

// said checks the log.
func (m machine) said(t *testing.T, want string) {
	t.Helper()
	var got string
	select {
	case got = <-m.log:
	default:
	}
	if want == "" && got != "" || !strings.HasPrefix(got, want) {
		t.Errorf("the logger heard %q, want %q", got, want)
	}
}

// While a run has the lock, ticks of all machines are skipped. After it one runs, unless AtLeast keeps the lock.
func TestSkipIfHeld(t *testing.T) {
	for _, tt := range []struct {
		name    string
		atLeast time.Duration
		runs    int // of the second machine
		said    string
	}{
		{"released", 0, 1, ""},
		{"kept", time.Hour, 0, "info: cronlock: left out"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ms := machines(t, 2, Options{Prefix: "cron/", AtLeast: tt.atLeast})
			here, there, runs := ms[0], ms[1], 0
			other := there.SkipIfHeld("report")(cron.FuncJob(func() { runs++ }))
			here.SkipIfHeld("report")(cron.FuncJob(func() {
				if lease := here.Lease("report"); lease == nil || lease.Name() != "cron/report" || lease.Check() != nil {
					t.Errorf("the lease of the run is %v", lease)
				}
				other.Run()
				there.said(t, "info: cronlock: left out")
				here.SkipIfHeld("report")(cron.FuncJob(func() { t.Error("two runs at once") })).Run()
				here.said(t, "info: cronlock: left out")
				there.SkipIfHeld("backup")(cron.FuncJob(func() { runs += 10 })).Run()
			})).Run()
			if runs != 10 || here.Lease("report") != nil {
				t.Errorf("while it ran, %d runs of the others, want 10 of another job; afterwards the lease is %v", runs, here.Lease("report"))
			}
			other.Run()
			there.said(t, tt.said)
			if runs != 10+tt.runs {
				t.Errorf("after it %d runs, want %d", runs-10, tt.runs)
			}
		})
	}
}

// A waiting run begins when the other is over, and is skipped after its time to wait.
func TestDelayIfHeld(t *testing.T) {
	ms := machines(t, 2, Options{AtLeast: time.Hour})
	begun, over, done := make(chan bool), make(chan bool), make(chan bool)
	go ms[0].DelayIfHeld("rotate", time.Minute)(cron.FuncJob(func() { close(begun); <-over })).Run()
	<-begun
	ms[1].DelayIfHeld("rotate", time.Millisecond)(cron.FuncJob(func() { t.Error("two runs at once") })).Run()
	ms[1].said(t, "info: cronlock: left out")
	go ms[1].DelayIfHeld("rotate", time.Minute)(cron.FuncJob(func() { close(done) })).Run()
	close(over)
	<-done
}

// A job that panics leaves no lock behind.
func TestPanic(t *testing.T) {
	ms := machines(t, 2, Options{})
	chain := cron.NewChain(cron.Recover(cron.DiscardLogger), ms[0].SkipIfHeld("report"))
	chain.Then(cron.FuncJob(func() { panic("broken") })).Run()
	runs := 0
	ms[1].SkipIfHeld("report")(cron.FuncJob(func() { runs++ })).Run()
	if runs != 1 {
		t.Errorf("after a panic the job ran %d times, want once", runs)
	}
}

// A run whose client is closed meanwhile loses its lease, which is logged, and no further run begins.
func TestClosedWhileLocked(t *testing.T) {
	m := machines(t, 1, Options{})[0]
	m.SkipIfHeld("report")(cron.FuncJob(func() {
		m.client.Close()
		if err := m.Lease("report").Check(); !errors.Is(err, stile.ErrLost) {
			t.Errorf("the lease of the run: %v, want %v", err, stile.ErrLost)
		}
	})).Run()
	m.said(t, `error: cronlock: job "report": stile: unlock "report": the lease is lost: `+stile.ReasonShutdown.String())
	m.SkipIfHeld("report")(cron.FuncJob(func() { t.Error("it ran") })).Run()
	m.said(t, `error: cronlock: job "report": stile: try "report": `+stile.ErrClosed.Error())
}

// An error names the adapter and the job, and the job does not run.
func TestErrors(t *testing.T) {
	if _, err := New(nil, &Options{AtLeast: -1}); err == nil || err.Error() != "cronlock: AtLeast is -1ns: it must not be negative" {
		t.Errorf("negative time: %v", err)
	}
	ms := machines(t, 2, Options{})
	never := cron.FuncJob(func() { t.Error("it ran") })
	ms[1].SkipIfHeld("")(never).Run()
	ms[1].said(t, `error: cronlock: job "": stile: try "": `+stile.ErrInvalid.Error())
	ms[1].client.Close()
	ms[1].SkipIfHeld("report")(never).Run()
	ms[1].said(t, `error: cronlock: job "report": stile: try "report": `+stile.ErrClosed.Error())
	ms[1].DelayIfHeld("report", time.Minute)(never).Run()
	ms[1].said(t, `error: cronlock: job "report": stile: lock "report": `+stile.ErrClosed.Error())
	ms[0].SkipIfHeld("report")(cron.FuncJob(func() {
		if _, err := ms[0].client.Break(t.Context(), "report", stile.BreakOptions{Head: true}); err != nil {
			t.Error(err)
		}
		<-ms[0].Lease("report").Context().Done()
		if err := ms[0].Lease("report").Check(); !errors.Is(err, stile.ErrLost) {
			t.Errorf("a lease that was broken: %v, want %v", err, stile.ErrLost)
		}
	})).Run()
	ms[0].said(t, `error: cronlock: job "report": stile: unlock "report": `)
}
