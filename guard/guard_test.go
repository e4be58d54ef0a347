package guard_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/internal/guardtest"
)

func TestMemoryMarks(t *testing.T) { guardtest.Marks(t, &guard.Memory{}) }

func TestDirMarks(t *testing.T) { guardtest.Marks(t, guard.Dir(t.TempDir())) }

// remembered is a balance guarded in memory.
func remembered(marks *guard.Memory, balance *int) guardtest.Account {
	return guardtest.Account{
		Read: func(ctx context.Context, token int64) (n int, err error) {
			if err := marks.Raise(ctx, "ann", token); err != nil {
				return 0, err
			}
			err = marks.Do("ann", token, func() error { n = *balance; return nil })
			return n, err
		},
		Write: func(_ context.Context, token int64, n int) error {
			return marks.Do("ann", token, func() error { *balance = n; return nil })
		},
	}
}

func TestMemoryLateWrite(t *testing.T) {
	plain, guarded := 100, 100
	guardtest.LateIsRefused(t, guardtest.Account{
		Read:  func(context.Context, int64) (int, error) { return plain, nil },
		Write: func(_ context.Context, _ int64, n int) error { plain = n; return nil },
	}, remembered(&guard.Memory{}, &guarded), func(ofGuarded bool) int {
		if ofGuarded {
			return guarded
		}
		return plain
	})
}

func TestMemoryOfMany(t *testing.T) {
	balance := 100
	guardtest.Many(t, remembered(&guard.Memory{}, &balance), func() int { return balance })
}

func TestMemoryDo(t *testing.T) {
	var m guard.Memory
	ran := 0
	f := func() error { ran++; return nil }
	if err := m.Do("a", 1, f); !errors.Is(err, guard.ErrNotRaised) {
		t.Errorf("without a raise: %v, want ErrNotRaised", err)
	}
	if err := m.Raise(t.Context(), "a", 2); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		token int64
		want  error
	}{{1, guard.ErrStale}, {2, nil}, {2, nil}, {3, guard.ErrNotRaised}, {0, guard.ErrNoToken}, {-2, guard.ErrNoToken}} {
		if err := m.Do("a", tt.token, f); !errors.Is(err, tt.want) {
			t.Errorf("token %d: %v, want %v", tt.token, err, tt.want)
		}
	}
	if ran != 2 {
		t.Errorf("ran %d times, want 2", ran)
	}
	own := errors.New("own")
	if err := m.Do("a", 2, func() error { return own }); !errors.Is(err, own) {
		t.Errorf("Do = %v, want the error of what it ran", err)
	}
}

func TestMemoryAtWork(t *testing.T) {
	var m guard.Memory
	guardtest.AtWork(t, func(ctx context.Context, token int64) error { return m.Raise(ctx, "a", token) },
		func(token int64, work func() error) error { return m.Do("a", token, work) })
}

func TestParseToken(t *testing.T) {
	for _, token := range guardtest.Tokens {
		text := guard.FormatToken(token)
		if got, err := guard.ParseToken(text); got != token || err != nil {
			t.Errorf("ParseToken(%q) = %d, %v", text, got, err)
		}
	}
	if _, err := guard.ParseToken(""); !errors.Is(err, guard.ErrNoToken) {
		t.Errorf("of nothing: %v, want ErrNoToken", err)
	}
	for _, text := range []string{"0", "-1", "+1", "01", " 1", "1 ", "1\n", "1.0", "1e3", "0x1", "1_000", "9223372036854775808", "١", "1\x00", "a"} {
		if got, err := guard.ParseToken(text); !errors.Is(err, guard.ErrInvalid) {
			t.Errorf("ParseToken(%q) = %d, %v; want ErrInvalid", text, got, err)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	for _, text := range []string{"", "1", "9223372036854775807", "-1", "007"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		token, err := guard.ParseToken(text)
		if err == nil && (token <= 0 || guard.FormatToken(token) != text) {
			t.Errorf("ParseToken(%q) = %d", text, token)
		}
	})
}

func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		token, mark int64
		want        error
	}{
		{1, 1, nil}, {math.MaxInt64, math.MaxInt64, nil},
		{1, 2, guard.ErrStale}, {1, math.MaxInt64, guard.ErrStale},
		{1, 0, guard.ErrNotRaised}, {math.MaxInt64, math.MaxInt64 - 1, guard.ErrNotRaised},
	} {
		if err := guard.Judge("a", tt.token, tt.mark); !errors.Is(err, tt.want) {
			t.Errorf("Judge(%d, %d) = %v, want %v", tt.token, tt.mark, err, tt.want)
		}
	}
}

func TestIdentifiers(t *testing.T) {
	dialects := []guard.Dialect{guard.PostgreSQL, guard.MySQL, guard.SQLite}
	for _, name := range []string{"a", "_a1", "A", "shop.marks", "select"} {
		for _, d := range dialects {
			if _, err := guard.NewTable(d, name); err != nil {
				t.Errorf("table %q: %v", name, err)
			}
		}
	}
	long := make([]byte, 64)
	for i := range long {
		long[i] = 'a'
	}
	for _, name := range []string{" ", "1a", "a b", "a;b", `a"`, "a`", "a'", "a--", "a.b.c", ".a", "a.", "a\x00", "ä", "a\n", string(long)} {
		for _, d := range dialects {
			if _, err := guard.NewTable(d, name); !errors.Is(err, guard.ErrInvalid) {
				t.Errorf("table %q: %v, want ErrInvalid", name, err)
			}
			for _, c := range [][3]string{{name, "id", "token"}, {"t", name, "token"}, {"t", "id", name}} {
				if _, err := guard.NewColumn(d, c[0], c[1], c[2]); !errors.Is(err, guard.ErrInvalid) {
					t.Errorf("column %q: %v, want ErrInvalid", c, err)
				}
			}
		}
	}
	for _, d := range []guard.Dialect{0, 4, -1} {
		if _, err := guard.NewTable(d, ""); !errors.Is(err, guard.ErrInvalid) {
			t.Errorf("dialect %d: %v, want ErrInvalid", d, err)
		}
	}
}
