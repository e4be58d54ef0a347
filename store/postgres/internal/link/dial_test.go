package link

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"

	"github.com/stilelock/stile/driver"
)

// When the driver is closed, its connections end at once, except one that cancels a statement: it stays open until the
// server has taken the request, or for a short time.
func TestCloseLetsCancelArrive(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := &dialer{open: map[*tracked]bool{}}
	made := func() (client, server net.Conn) {
		t.Helper()
		client, err := d.dial(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if server, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			client.Close()
			server.Close()
		})
		return client, server
	}
	plain, fromPlain := made()
	secure, fromSecure := made()
	cancel, fromCancel := made()
	frozen, _ := made()
	late, _ := made()
	for _, c := range []net.Conn{plain, tls.Client(secure, &tls.Config{})} {
		if got, err := d.begin(context.Background(), nil, c); got != c || err != nil {
			t.Fatalf("begin = %v, %v; want the same connection", got, err)
		}
	}
	d.close()
	for _, c := range []net.Conn{fromPlain, fromSecure} {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("read from a connection for statements = %v; want that it has ended", err)
		}
	}
	if _, err := d.begin(context.Background(), nil, late); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("begin = %v; want ErrClosed", err)
	}
	fromCancel.Close() // the request is taken
	if _, err := cancel.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read of a request to cancel = %v; want that the server has ended it", err)
	}
	if _, err := frozen.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read of a request to cancel that is not taken = %v; want a time-out", err)
	}
}
