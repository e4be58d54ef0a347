package jobs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/internal/turntest"
	_ "github.com/stilelock/stile/store/memcached"
	_ "github.com/stilelock/stile/store/redis"
	_ "github.com/stilelock/stile/store/sqlite"
)

// victim is the URL for a process that will be killed in its first run.
const victim = "STILE_JOBS_VICTIM"

func TestMain(m *testing.M) {
	if url := os.Getenv(victim); url != "" {
		die(url, os.Args[len(os.Args)-1])
	}
	os.Exit(m.Run())
}

// die runs a job, or a call of Once, prints its token, and waits to be killed.
func die(url, what string) {
	stuck := func(ctx context.Context) (string, error) {
		fmt.Println(stile.Token(ctx))
		<-ctx.Done()
		return "", ctx.Err()
	}
	c, err := open(context.Background(), url)
	var j *Job
	switch {
	case err != nil:
	case what == "once":
		_, err = Once(c, "paid", time.Hour).Do(context.Background(), stuck)
	default:
		if j, err = New(c, "nightly", "@every 1s", func(ctx context.Context) error { _, err := stuck(ctx); return err }, nil); err == nil {
			err = j.Run(context.Background())
		}
	}
	fmt.Println(err)
	os.Exit(1)
}

func open(ctx context.Context, url string) (*stile.Client, error) {
	return stile.Open(ctx, url, &stile.Options{LockOptions: stile.LockOptions{TTL: 3 * time.Second}})
}

// A process is killed in the middle of a run. Two others run its tick again, once, and then each tick once.
func TestKill(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"sqlite":  "sqlite://" + filepath.Join(t.TempDir(), "locks.db"),
		"redis":   "redis://" + servertest.Redis(t).Addr,
		"service": turntest.Service(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			token := killed(ctx, t, url, "job")
			first := recalled(ctx, t, url)

			var (
				mu      sync.Mutex
				results []Result
			)
			enough := make(chan bool)
			var machines sync.WaitGroup
			for range 2 {
				c, err := open(ctx, url)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				j, err := New(c, "nightly", "@every 1s", func(context.Context) error { return nil }, &Options{
					Missed: RunAll,
					Report: func(r Result) {
						mu.Lock()
						defer mu.Unlock()
						if r.Outcome == Elsewhere {
							return
						}
						if results = append(results, r); len(results) == 8 {
							close(enough)
						}
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				machines.Go(func() {
					if err := j.Run(ctx); !errors.Is(err, context.Canceled) {
						t.Errorf("Run: %v", err)
					}
				})
			}
			select {
			case <-enough:
			case <-ctx.Done():
				t.Error("eight ticks were not run in two minutes")
			}
			cancel()
			machines.Wait()
			slices.SortFunc(results, func(a, b Result) int { return a.Tick.Compare(b.Tick) })
			for i, r := range results[:min(len(results), 8)] {
				if want := first.Add(time.Duration(i) * time.Second); !r.Tick.Equal(want) || r.Outcome != Done || r.Ticket <= token {
					t.Errorf("tick %d: got %s %s %v with token %d, want %s done with more than %d", i, r.Tick, r.Outcome, r.Err, r.Ticket, want, token)
				}
				token = r.Ticket
			}
		})
	}
}

// A process is killed in the middle of a run, and then the store forgets the tick, as after an eviction or a restart. Nobody
// knows of the tick, so it is not made up for, and the later ticks have one run each.
func TestTickIsForgotten(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func() (url string, forget func()){
		"redis": func() (string, func()) {
			s := servertest.Redis(t)
			return "redis://" + s.Addr, func() { s.Redis([]string{"FLUSHALL"}) }
		},
		"memcached": func() (string, func()) {
			s := servertest.Memcached(t)
			return "memcached://" + s.Addr, func() { flush(t, s.Addr) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			url, forget := start()
			killed(ctx, t, url, "job")
			lost := recalled(ctx, t, url)
			forget()

			var (
				mu       sync.Mutex
				runs     = map[time.Time]int{}
				machines sync.WaitGroup
			)
			enough := make(chan bool)
			looks, err := open(ctx, url)
			if err != nil {
				t.Fatal(err)
			}
			defer looks.Close()
			if p, err := Last(ctx, looks, "nightly"); err != nil || !p.Tick.IsZero() {
				t.Errorf("the store has %+v, %v; want nothing", p, err)
			}
			begin := time.Now()
			for range 2 {
				c, err := open(ctx, url)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				j, err := New(c, "nightly", "@every 1s", func(context.Context) error { return nil }, &Options{
					Missed: RunAll,
					Report: func(r Result) {
						mu.Lock()
						defer mu.Unlock()
						if r.Outcome == Elsewhere || r.Outcome == Trouble {
							return
						}
						if runs[r.Tick]++; len(runs) == 4 && runs[r.Tick] == 1 {
							close(enough)
						}
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				machines.Go(func() {
					if err := j.Run(ctx); !errors.Is(err, context.Canceled) {
						t.Errorf("Run: %v", err)
					}
				})
			}
			select {
			case <-enough:
			case <-ctx.Done():
				t.Error("four ticks were not run in a minute")
			}
			cancel()
			machines.Wait()
			for tick, n := range runs {
				if n != 1 || !tick.After(lost) || tick.Before(begin.Add(-time.Second)) {
					t.Errorf("tick %v has %d runs; want one each, of those since %v", tick, n, begin)
				}
			}
		})
	}
}

// flush makes memcached forget all.
func flush(t *testing.T, addr string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "flush_all\r\n")
	if line, err := bufio.NewReader(c).ReadString('\n'); line != "OK\r\n" {
		t.Fatalf("flush_all: %q, %v", line, err)
	}
}

// killed starts a process, kills it in its first run, and returns the token of that run.
func killed(ctx context.Context, t *testing.T, url, what string) (token int64) {
	t.Helper()
	cmd := exec.CommandContext(ctx, os.Args[0], what)
	cmd.Env = append(os.Environ(), victim+"="+url)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	cmd.Process.Kill()
	cmd.Wait()
	if _, bad := fmt.Sscan(line, &token); bad != nil {
		t.Fatalf("the process said %q (%v)", line, err)
	}
	return token
}

// recalled returns the tick in the store's record.
func recalled(ctx context.Context, t *testing.T, url string) time.Time {
	t.Helper()
	c, err := open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := recall(ctx, c, "nightly")
	if err != nil || r.Stage != started {
		t.Fatalf("the store has %v (%v), want a tick that is started", r, err)
	}
	return r.Tick
}

// A process is killed in the middle of a call of Once. One of three others runs it again, with a higher token, and all get
// its answer. After the store forgets the answer, the call runs once more, again with a higher token.
func TestOnceKill(t *testing.T) {
	t.Parallel()
	server := servertest.Redis(t)
	for _, tt := range []struct {
		name, url string
		forget    func()
	}{
		{"sqlite", "sqlite://" + filepath.Join(t.TempDir(), "locks.db"), nil},
		{"redis", "redis://" + server.Addr, func() { server.Redis([]string{"FLUSHALL"}) }},
		{"service", turntest.Service(t), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			token := killed(ctx, t, tt.url, "once")
			a := calledBy(ctx, t, tt.url, 3)
			if a.Ticket <= token {
				t.Errorf("the next run has token %d after %d", a.Ticket, token)
			}
			again := calledBy(ctx, t, tt.url, 0)
			if again != a {
				t.Errorf("kept: %v, want %v", again, a)
			}
			if tt.forget == nil {
				return
			}
			tt.forget()
			if again = calledBy(ctx, t, tt.url, 3); again.Ticket <= a.Ticket {
				t.Errorf("after the loss: token %d after %d", again.Ticket, a.Ticket)
			}
		})
	}
}

// calledBy lets clients make the call at once, one of which runs it, and returns the answer that all got. With 0 clients it
// returns the kept answer.
func calledBy(ctx context.Context, t *testing.T, url string, clients int) Answer {
	t.Helper()
	var (
		mu      sync.Mutex
		answers []Answer
		here    int
		calls   sync.WaitGroup
	)
	for i := range max(1, clients) {
		c, err := open(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		call := Once(c, "paid", time.Hour)
		calls.Go(func() {
			var a Answer
			var err error
			if clients == 0 {
				a, err = call.Answer(ctx)
			} else {
				a, err = call.Do(ctx, func(context.Context) (string, error) { return fmt.Sprint("by client ", i), nil })
			}
			mu.Lock()
			defer mu.Unlock()
			if a.Here {
				here++
			}
			a.Here = false
			if answers = append(answers, a); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if all := slices.Compact(answers); len(all) != 1 || here != min(1, clients) {
		t.Errorf("%d runs, answers %v", here, answers)
	}
	return answers[0]
}
