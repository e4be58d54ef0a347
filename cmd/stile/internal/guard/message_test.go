package guard

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestOrders(t *testing.T) {
	want := []Order{
		{},
		{Signal: syscall.SIGTERM, Until: -time.Second, Left: 1<<63 - 1},
		{Run: &Program{Args: []string{}, Env: []string{}}},
		{Run: &Program{
			Path: "/bin/a b", Args: []string{"a b", "", "\xff\n"}, Env: []string{"A=" + strings.Repeat("x", 1<<17), "B="},
			Secret: "/run/secret", Terminal: true,
		}, Until: time.Hour},
	}
	var wire bytes.Buffer
	for _, o := range want {
		o.Send(&wire)
	}
	var got []Order
	for o := range Orders(&wire) {
		got = append(got, o)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestNews(t *testing.T) {
	want := []News{
		{Ready: true},
		{PID: 1 << 30},
		{Errno: syscall.ENOEXEC},
		{Late: true, Stopped: true},
		{Exited: true, Status: 0xff7f, Gone: true},
	}
	var wire bytes.Buffer
	for _, n := range want {
		wire.Write(n.encode())
	}
	var got []News
	for n := range ReadNews(&wire) {
		got = append(got, n)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// FuzzOrders feeds bytes that are no orders: reading ends, and what was read is written and read again as the same.
func FuzzOrders(f *testing.F) {
	f.Add((&Order{Signal: syscall.SIGHUP}).encode())
	f.Add((&Order{Run: &Program{Path: "a", Args: []string{"a", "b"}}}).encode())
	f.Add([]byte{0, 0, 0, 1, 1})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, text []byte) {
		for o := range Orders(bytes.NewReader(text)) {
			again := <-Orders(bytes.NewReader(o.encode()))
			if !reflect.DeepEqual(again, o) {
				t.Errorf("%+v became %+v", o, again)
			}
		}
	})
}

// An order that was cut off, as by the death of stile, is none.
func TestCutOff(t *testing.T) {
	wire := (&Order{Run: &Program{Path: "true", Args: []string{"true"}}}).encode()
	for n := range len(wire) {
		for o := range Orders(bytes.NewReader(wire[:n])) {
			t.Errorf("%d of %d bytes are %+v", n, len(wire), o)
		}
	}
	if _, err := receive(bytes.NewReader([]byte{0, 0, 0, 0, 0x7f, 0, 0, 0})); !errors.Is(err, errTooLong) {
		t.Errorf("a length of 2 GiB: %v, want %v", err, errTooLong)
	}
	if _, err := receive(bytes.NewReader(nil)); !errors.Is(err, io.EOF) {
		t.Errorf("nothing: %v, want %v", err, io.EOF)
	}
}
