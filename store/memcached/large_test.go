package memcached

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// A long foreign value is reported as foreign, if the server accepts values of this size, and breaks no connection.
func TestLargeForeignValue(t *testing.T) {
	t.Parallel()
	s := servertest.Memcached(t, "-m", "128", "-I", "16m")
	d := open(t, s.Addr, "")
	other := claim("other", "o")
	holds(t, d, other)
	c, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	const size = 9 << 20
	fmt.Fprintf(c, "set %sname 0 0 %d\r\n", DefaultPrefix, size)
	_, _ = c.Write(make([]byte, size)) // the answer shows an error
	fmt.Fprint(c, "\r\n")
	answer := make([]byte, 64)
	if n, err := c.Read(answer); string(answer[:n]) != "STORED\r\n" {
		t.Fatalf("the server answers %q, %v", answer[:n], err)
	}
	before := d.(*Driver).exchanger.link.latest()
	if _, err := d.Enter(timely(t), claim("name", "a")); !errors.Is(err, driver.ErrForeign) {
		t.Errorf("enter = %v; want ErrForeign", err)
	}
	if err := renew(t, d, other); err != nil || d.(*Driver).exchanger.link.latest() != before {
		t.Errorf("renewal of another name = %v; want it on the connection that there was", err)
	}
}
