package guard_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stilelock/stile/guard"
)

// BenchmarkFile measures a guarded write beside a bare write of the same kind.
func BenchmarkFile(b *testing.B) {
	path := filepath.Join(b.TempDir(), "data")
	text := make([]byte, 1000)
	token := int64(1)
	f, err := guard.RaiseFile(b.Context(), path, token, nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, way := range []struct {
		name string
		do   func() error
	}{
		{"bare", func() error { return writeAndSync(path, text) }},
		{"write", func() error { return f.Write(b.Context(), text) }},
		{"raise", func() error { token++; _, err := guard.RaiseFile(b.Context(), path, token, nil); return err }},
	} {
		b.Run(way.name, func(b *testing.B) { repeat(b, way.do) })
	}
}

// writeAndSync replaces a file durably, as a program without a guard does.
func writeAndSync(path string, text []byte) error {
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

func BenchmarkMemory(b *testing.B) {
	var m guard.Memory
	token := int64(0)
	b.Run("raise", func(b *testing.B) {
		repeat(b, func() error { token++; return m.Raise(b.Context(), "a", token) })
	})
	b.Run("do", func(b *testing.B) {
		repeat(b, func() error { return m.Do("a", token, func() error { return nil }) })
	})
}

func BenchmarkHandler(b *testing.B) {
	inner := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for name, h := range map[string]http.Handler{"bare": inner, "guarded": guard.NewHandler(inner, &guard.Memory{}, nil)} {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodPut, "/a", nil)
			r.Header.Set(guard.Header, "7")
			repeat(b, func() error { h.ServeHTTP(httptest.NewRecorder(), r); return nil })
		})
	}
}

func repeat(b *testing.B, do func() error) {
	for b.Loop() {
		if err := do(); err != nil {
			b.Fatal(err)
		}
	}
}
