package redis

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/internal/guardtest"
	"github.com/stilelock/stile/internal/servertest"
)

// guardOf returns a guard over a client of its own.
func guardOf(t testing.TB, o *GuardOptions, addrs ...string) (*Guard, rueidis.Client) {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: addrs, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	g, err := NewGuard(client, o)
	if err != nil {
		t.Fatal(err)
	}
	return g, client
}

func raise(t testing.TB, g *Guard, resource string, token int64) *Keys {
	t.Helper()
	k, err := g.Raise(t.Context(), resource, token)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestGuardMarks(t *testing.T) {
	t.Parallel()
	g, _ := guardOf(t, nil, servertest.Redis(t).Addr)
	guardtest.Marks(t, g.Marks())
}

func TestGuardMarksInCluster(t *testing.T) {
	t.Parallel()
	nodes := servertest.RedisCluster(t)
	g, client := guardOf(t, nil, nodes[0].Addr)
	guardtest.Marks(t, g.Marks())
	for _, plain := range []string{"price", "stock", "rate", "tax"} {
		if err := raise(t, g, plain, 7).Set(t.Context(), plain, "1", 0); err != nil {
			t.Errorf("a key that is called as its resource: %v", err)
		}
	}
	k := raise(t, g, "{order 42}/state", 7)
	if err := errors.Join(
		k.Set(t.Context(), "{order 42}/state", "paid", 0),
		k.HSet(t.Context(), "{order 42}/lines", "a", "1"),
	); err != nil {
		t.Error(err)
	}
	get := client.B().Get().Key("{order 42}/state").Build()
	if got, err := client.Do(t.Context(), get).ToString(); got != "paid" || err != nil {
		t.Errorf("GET = %q, %v", got, err)
	}
}

// increment adds to a number by a script of its own.
func increment(t *testing.T, k *Keys, key, by string) (int64, error) {
	t.Helper()
	m, err := k.Eval(t.Context(), "return redis.call('INCRBY', KEYS[1], ARGV[1])", []string{key}, []string{by})
	if err != nil {
		return 0, err
	}
	return m.ToInt64()
}

func TestGuardedCommands(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	g, _ := guardOf(t, nil, s.Addr)
	ctx := t.Context()
	for i, token := range guardtest.Tokens {
		resource := "r" + strconv.Itoa(i)
		hash, other := "{"+resource+"}hash", "{"+resource+"}other"
		k := raise(t, g, resource, token)
		if _, ok, err := k.Get(ctx, resource); ok || err != nil {
			t.Errorf("get of nothing = %v, %v", ok, err)
		}
		binary := "a\x00\r\n'\xff" + strings.Repeat("x", 1000)
		if err := errors.Join(
			k.Check(ctx), k.Set(ctx, resource, binary, 0), k.Set(ctx, other, "short", time.Minute),
			k.HSet(ctx, hash, "f", "1", "g", "2"),
		); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := k.Get(ctx, resource); got != binary || !ok || err != nil {
			t.Errorf("get = %q, %v, %v", got, ok, err)
		}
		if got := s.Redis([]string{"HGET", hash, "g"}); got != "2" {
			t.Errorf("HGET = %v", got)
		}
		if got, _ := s.Redis([]string{"PTTL", other}).(int64); got <= 0 || got > 60000 {
			t.Errorf("PTTL = %v, want up to a minute", got)
		}
		if n, err := increment(t, k, "{"+resource+"}n", "5"); n != 5 || err != nil {
			t.Errorf("eval = %d, %v", n, err)
		}
		if err := k.Del(ctx, other, hash); err != nil {
			t.Error(err)
		}
		if got := s.Redis([]string{"EXISTS", other, hash}); got != int64(0) {
			t.Errorf("EXISTS after Del = %v", got)
		}
	}
}

// None of the commands of a late holder changes anything.
func TestGuardRefuses(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	g, _ := guardOf(t, nil, s.Addr)
	for i, token := range guardtest.Tokens[:len(guardtest.Tokens)-1] {
		newer := guardtest.Tokens[i+1]
		late := raise(t, g, "r", token)
		if err := late.Set(t.Context(), "r", "kept", 0); err != nil {
			t.Fatal(err)
		}
		raise(t, g, "r", newer)
		for what, do := range map[string]func() error{
			"get":   func() error { _, _, err := late.Get(t.Context(), "r"); return err },
			"set":   func() error { return late.Set(t.Context(), "r", "late", 0) },
			"hset":  func() error { return late.HSet(t.Context(), "{r}h", "f", "1") },
			"del":   func() error { return late.Del(t.Context(), "r") },
			"check": func() error { return late.Check(t.Context()) },
			"eval": func() error {
				_, err := late.Eval(t.Context(), "redis.call('SET', KEYS[1], '1')", []string{"{r}h"}, nil)
				return err
			},
			"raise": func() error { _, err := g.Raise(t.Context(), "r", token); return err },
		} {
			stale, ok := errors.AsType[*guard.StaleError](do())
			if !ok || *stale != (guard.StaleError{Resource: "r", Token: token, Newer: newer}) {
				t.Errorf("%s with %d after %d = %v, want a StaleError with both", what, token, newer, stale)
			}
		}
		if got := s.Redis([]string{"GET", "r"}); got != "kept" {
			t.Errorf("GET = %v, want what was there", got)
		}
		if got := s.Redis([]string{"EXISTS", "{r}h"}); got != int64(0) {
			t.Error("a late command has made a key")
		}
	}
}

// A server that lost the marks refuses the writes of a token that was not raised again.
func TestGuardForgotten(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	g, _ := guardOf(t, nil, s.Addr)
	k := raise(t, g, "r", 5)
	s.Redis([]string{"FLUSHALL"})
	if err := k.Set(t.Context(), "r", "late", 0); !errors.Is(err, guard.ErrNotRaised) {
		t.Errorf("set = %v, want ErrNotRaised", err)
	}
	raise(t, g, "r", 4) // lower than the lost mark
	if err := k.Set(t.Context(), "r", "late", 0); !errors.Is(err, guard.ErrNotRaised) {
		t.Errorf("set = %v, want ErrNotRaised", err)
	}
}

func TestGuardKeeps(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	for keep, most := range map[time.Duration]int64{0: -1, time.Hour: 3600_000} {
		g, _ := guardOf(t, &GuardOptions{Keep: keep, Prefix: "kept " + keep.String()}, s.Addr)
		k := raise(t, g, "r", 5)
		if got, _ := s.Redis([]string{"PTTL", k.mark}).(int64); got > most || most > 0 && got < most-60_000 {
			t.Errorf("keep %v: PTTL = %d, want %d", keep, got, most)
		}
	}
}

func TestGuardBadInput(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	g, client := guardOf(t, nil, s.Addr)
	for _, resource := range []string{"a}", "{}a}", "{}}"} {
		if _, err := g.Raise(t.Context(), resource, 1); !errors.Is(err, guard.ErrInvalid) {
			t.Errorf("resource %q: %v, want ErrInvalid: no key can be in its slot", resource, err)
		}
	}
	k := raise(t, g, "a{b}c", 1)
	for _, key := range []string{"a", "ab", "{a}b", "{}b", "{b", ""} {
		if err := k.Set(t.Context(), key, "x", 0); !errors.Is(err, guard.ErrInvalid) {
			t.Errorf("key %q: %v, want ErrInvalid: it is in another slot", key, err)
		}
	}
	for _, mark := range []string{"-1", "0", "x", "", "1.5", "99999999999999999999"} {
		s.Redis([]string{"SET", k.mark, mark})
		for what, do := range map[string]func() error{
			"raise": func() error { _, err := g.Raise(t.Context(), "a{b}c", 5); return err },
			"set":   func() error { return k.Set(t.Context(), "b", "x", 0) },
		} {
			if err := do(); err == nil {
				t.Errorf("%s goes through with the mark %q", what, mark)
			}
		}
	}
	s.Redis([]string{"DEL", k.mark}, []string{"HSET", k.mark, "a", "b"})
	if _, err := g.Raise(t.Context(), "a{b}c", 5); err == nil || errors.Is(err, guard.ErrStale) {
		t.Errorf("raise on a hash = %v, want the server's refusal", err)
	}
	for _, o := range []*GuardOptions{{Prefix: "a{"}, {Prefix: "}"}, {Keep: -1}} {
		if _, err := NewGuard(client, o); !errors.Is(err, guard.ErrInvalid) {
			t.Errorf("%+v: %v, want ErrInvalid", o, err)
		}
	}
}

// guardedKey returns a balance in a guarded key.
func guardedKey(g *Guard, key string) guardtest.Account {
	return guardtest.Account{
		Read: func(ctx context.Context, token int64) (int, error) {
			k, err := g.Raise(ctx, key, token)
			if err != nil {
				return 0, err
			}
			text, _, err := k.Get(ctx, key)
			if err != nil {
				return 0, err
			}
			return strconv.Atoi(text)
		},
		Write: func(ctx context.Context, token int64, balance int) error {
			k, err := g.Raise(ctx, key, token)
			if err != nil {
				return err
			}
			return k.Set(ctx, key, strconv.Itoa(balance), 0)
		},
	}
}

// balance reads the number in a key without the guard.
func balance(t *testing.T, s *servertest.Server, key string) int {
	t.Helper()
	text, _ := s.Redis([]string{"GET", key}).(string)
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestGuardLateWrite(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	g, _ := guardOf(t, nil, s.Addr)
	s.Redis([]string{"SET", "plain", "100"}, []string{"SET", "guarded", "100"})
	guardtest.LateIsRefused(t, guardtest.Account{
		Read: func(context.Context, int64) (int, error) { return balance(t, s, "plain"), nil },
		Write: func(_ context.Context, _ int64, balance int) error {
			s.Redis([]string{"SET", "plain", strconv.Itoa(balance)})
			return nil
		},
	}, guardedKey(g, "guarded"), func(guarded bool) int {
		if guarded {
			return balance(t, s, "guarded")
		}
		return balance(t, s, "plain")
	})
}

func TestGuardOfMany(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	g, _ := guardOf(t, nil, s.Addr)
	s.Redis([]string{"SET", "many", "100"})
	guardtest.Many(t, guardedKey(g, "many"), func() int { return balance(t, s, "many") })
}

func BenchmarkGuard(b *testing.B) {
	g, client := guardOf(b, nil, servertest.Redis(b).Addr)
	ctx := b.Context()
	token := int64(0)
	k := raise(b, g, "r", 1)
	for _, way := range []struct {
		name string
		do   func() error
	}{
		{"bare", func() error { return client.Do(ctx, client.B().Set().Key("r").Value("1").Build()).Error() }},
		{"raise", func() error { token++; _, err := g.Raise(ctx, "r", token); return err }},
		{"write", func() error { return k.Set(ctx, "r", "1", 0) }},
	} {
		if way.name == "write" {
			token++
			k = raise(b, g, "r", token)
		}
		b.Run(way.name, func(b *testing.B) {
			for b.Loop() {
				if err := way.do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
