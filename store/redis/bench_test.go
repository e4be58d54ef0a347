package redis

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

// BenchmarkLongQueue measures what a change of a queue costs the server, by the number of waiting claims: the server's time
// for scripts (INFO commandstats), in all and the least of many short rounds, since the machine does other work too. Packed
// is the form of a short queue, at each length.
//
//	go test -run '^$' -bench LongQueue -benchtime 40x .
func BenchmarkLongQueue(b *testing.B) {
	s := servertest.Redis(b)
	for _, n := range []int{0, 8, 64, 256, 1000, 10_000} {
		for name, form := range map[string]queueForm{"usual": usualForm, "packed": shortForm} {
			if name == "packed" && n > 1000 {
				continue // a herd of this size takes minutes
			}
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				d := open(b, "redis://"+s.Addr)
				d.scripts = newQueueScripts(d.conn.EvenIfFull(), d.conn.Sharded(), form)
				q := fill(b, d, n)
				b.Run("enter+leave", func(b *testing.B) {
					serverTimes(b, s, func() {
						q.add(b, d)
						leave(b, d, q.claims[0])
						q.claims = q.claims[1:]
					})
				})
				if n > 0 {
					b.Run("refresh", func(b *testing.B) {
						i := 0
						serverTimes(b, s, func() {
							i = (i + 7919) % len(q.claims)
							enter(b, d, q.claims[i])
						})
					})
				}
				s.Redis([]string{"FLUSHALL"})
			})
		}
	}
}

// serverTimes reports the server's time for one call of b.Loop's many.
func serverTimes(b *testing.B, s *servertest.Server, once func()) {
	b.Helper()
	const calls = 50
	least, begin := math.Inf(1), scriptTime(b, s)
	for b.Loop() {
		from := scriptTime(b, s)
		for range calls {
			once()
		}
		least = min(least, float64((scriptTime(b, s)-from).Nanoseconds())/1e3/calls)
	}
	b.ReportMetric(float64((scriptTime(b, s)-begin).Nanoseconds())/1e3/float64(b.N)/calls, "server-µs/op")
	b.ReportMetric(least, "least-server-µs/op")
}

// BenchmarkHerd measures how long the server needs to let in claims that come at once: the least time of a few herds.
//
//	go test -run '^$' -bench Herd -benchtime 9x .
func BenchmarkHerd(b *testing.B) {
	s := servertest.Redis(b)
	d := open(b, "redis://"+s.Addr)
	least := time.Hour
	for b.Loop() {
		from := scriptTime(b, s)
		fill(b, d, 1000)
		least = min(least, scriptTime(b, s)-from)
		s.Redis([]string{"FLUSHALL"})
	}
	b.ReportMetric(least.Seconds()*1e3, "least-server-ms/herd")
}

// A line is a queue whose claims are known, in order.
type line struct {
	claims []*driver.Claim
	drawn  int
}

func fill(b *testing.B, d *Driver, n int) *line {
	b.Helper()
	q := &line{}
	for range n {
		q.add(b, d)
	}
	return q
}

func (q *line) add(b *testing.B, d *Driver) {
	b.Helper()
	q.drawn++
	c := claim("name", fmt.Sprintf("QZ3J5V7K2M4N6P8R-%d", q.drawn))
	c.Record = `{"owner":"host-17","host":"host-17.example","pid":4711,"since":"2026-01-01T00:00:00Z"}`
	c.TTL, c.Wait = time.Hour, time.Hour
	enter(b, d, c)
	q.claims = append(q.claims, c)
}

var evalTime = regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=\d+,usec=(\d+)`)

// scriptTime returns the server's time for scripts so far.
func scriptTime(b *testing.B, s *servertest.Server) (sum time.Duration) {
	b.Helper()
	text, _ := s.Redis([]string{"INFO", "commandstats"}).(string)
	for _, found := range evalTime.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseInt(found[1], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(n) * time.Microsecond
	}
	return sum
}

// BenchmarkScripts measures the server's time for the scripts of a lock that nobody else wants: the least of many rounds,
// since the machine does other work too. Bare are the two scripts of a lock without queue, ticket and time.
//
//	go test -run '^$' -bench Scripts -benchtime 200x .
func BenchmarkScripts(b *testing.B) {
	s := servertest.Redis(b)
	d := open(b, "redis://"+s.Addr)
	least := map[string]float64{}
	record := `{"owner":"host-17","host":"host-17.example","pid":4711,"since":"2026-01-01T00:00:00Z"}`
	drawn := 0
	id := func() string {
		drawn++
		return fmt.Sprintf("QZ3J5V7K2M4N6P8R-%d", drawn)
	}
	bareEnter := conn.NewScript(`redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) return ARGV[1]`, nil)
	bareLeave := conn.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) return ARGV[1] end`, nil)
	const calls = 200
	measure := func(key string, once func()) {
		from := scriptTime(b, s)
		for range calls {
			once()
		}
		took := float64((scriptTime(b, s) - from).Nanoseconds()) / 1e3 / calls
		if before, ok := least[key]; !ok || took < before {
			least[key] = took
		}
	}
	for b.Loop() {
		measure("stile", func() {
			c := claim("name", id())
			c.Record = record
			enter(b, d, c)
			leave(b, d, c)
		})
		measure("bare", func() {
			id := id()
			if _, err := d.conn.Run(b.Context(), bareEnter, "bare", id, "15000"); err != nil {
				b.Fatal(err)
			}
			if _, err := d.conn.Run(b.Context(), bareLeave, "bare", id); err != nil {
				b.Fatal(err)
			}
		})
	}
	b.ReportMetric(least["stile"], "stile-server-µs/pair")
	b.ReportMetric(least["bare"], "bare-server-µs/pair")
}
