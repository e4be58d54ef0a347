package secure_test

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/secure"
	"github.com/stilelock/stile/internal/servertest"
)

// Only a server's answer proves that it does not speak as the URL says; silence and a closed connection do not.
func TestOpenNamesTheTransport(t *testing.T) {
	t.Parallel()
	secured := httptest.NewTLSServer(nil)
	t.Cleanup(secured.Close)
	tls := strings.TrimPrefix(secured.URL, "https://")
	talks := servertest.Impostor(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 8))
		_, _ = c.Write([]byte("-ERR who are you?\r\n"))
		c.Close()
	})
	silent := servertest.Impostor(t, func(c net.Conn) { t.Cleanup(func() { c.Close() }) })
	closes := servertest.Impostor(t, func(c net.Conn) { c.Close() })
	hangs := func(ctx context.Context) error { <-ctx.Done(); return driver.Ended(ctx, false) }
	fails := func(context.Context) error { return driver.Unreachable(errors.New("broken pipe")) }
	denies := func(context.Context) error { return driver.Refused(errors.New("wrong password")) }
	for _, tt := range []struct {
		name, host string
		tls        bool
		open       func(context.Context) error
		want       string // "" for the error of open
	}{
		{"hangs, and the server is plain", talks, true, hangs, "store at " + talks + " does not speak TLS: use s:// in place of ss://"},
		{"fails, and the server is plain", talks, true, fails, "store at " + talks + " does not speak TLS: use s:// in place of ss://"},
		{"fails, and the server has TLS", tls, false, fails, "store at " + tls + " requires TLS: use ss:// in place of s://"},
		{"denies, and the server is plain", talks, true, denies, ""},
		{"TLS as it should be", tls, true, fails, ""},
		{"no TLS as it should be", talks, false, fails, ""},
		{"a silent server with TLS wanted", silent, true, hangs, ""},
		{"a server that closes, with TLS wanted", closes, true, fails, ""},
		{"a server that closes", closes, false, fails, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &secure.Servers{Store: "store", Hosts: []string{tt.host}, TLS: tt.tls, Scheme: "s", Instead: "ss", Greeting: "PING\r\n"}
			if tt.tls {
				s.Scheme, s.Instead = "ss", "s"
			}
			within := secure.Hesitation * 4
			if tt.want != "" {
				within = time.Minute // a handshake takes as long as it takes
			}
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			_, err := secure.Open(ctx, s, func(ctx context.Context) (int, error) { return 0, tt.open(ctx) })
			if tt.want == "" {
				if err == nil || strings.Contains(err.Error(), "TLS") {
					t.Errorf("open = %v; want its own error", err)
				}
				return
			}
			if err == nil || err.Error() != tt.want || driver.OutcomeOf(err) != driver.OutcomeRefused || driver.IsUnreachable(err) {
				t.Errorf("open = %v; want it refused for good: %s", err, tt.want)
			}
		})
	}
	d, err := secure.Open(t.Context(), &secure.Servers{Hosts: []string{silent}}, func(context.Context) (int, error) { return 7, nil })
	if d != 7 || err != nil {
		t.Errorf("open = %d, %v; want what was opened", d, err)
	}
}

// A store that fails while its server is asked is explained by the answer.
func TestOpenWaitsForTheAnswer(t *testing.T) {
	t.Parallel()
	asked, failed := make(chan struct{}), make(chan struct{})
	talks := servertest.Impostor(t, func(c net.Conn) {
		defer c.Close()
		_, _ = c.Read(make([]byte, 8))
		close(asked)
		<-failed
		_, _ = c.Write([]byte("-ERR who are you?\r\n"))
	})
	s := &secure.Servers{Store: "store", Hosts: []string{talks}, TLS: true, Scheme: "ss", Instead: "s", Greeting: "PING\r\n"}
	_, err := secure.Open(t.Context(), s, func(context.Context) (int, error) {
		<-asked
		defer close(failed)
		return 0, driver.Unreachable(errors.New("connection reset by peer"))
	})
	if err == nil || !strings.Contains(err.Error(), "does not speak TLS") {
		t.Errorf("open = %v; want that the server does not speak TLS", err)
	}
}
