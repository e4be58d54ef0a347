package zookeeper_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/server"
)

func TestContractServed(t *testing.T) {
	t.Parallel()
	drive.ContractServed(t, func(t *testing.T) drivertest.Store {
		s := store(servertest.ZooKeeper(t).Addr)
		s.Edge = nil // its server has one queue for all names, and the service has a lock of its own
		return s
	}, []driver.Trait{driver.TraitLockDelay}, 0, 1)
}

func TestSimpleServed(t *testing.T) {
	t.Parallel()
	drive.SimpleServed(t, 1, store(servertest.ZooKeeper(t).Addr))
}

// serves starts a lock service, and returns its address and how to end it.
func serves(t *testing.T, url string) (addr string, end func()) {
	d := open(t, url)
	s, err := server.New(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	end = func() {
		s.EndWaits()
		web.CloseClientConnections()
		web.Close()
		d.Close()
	}
	t.Cleanup(end)
	return strings.TrimPrefix(web.URL, "http://"), end
}

// When the service ends, another one takes its place once the session of the first is over. A holder learns of the danger
// before it loses its lock, and nobody else has the lock before that.
func TestServiceIsReplaced(t *testing.T) {
	t.Parallel()
	url := "zk://" + servertest.ZooKeeper(t).Addr + "?session=6s"
	first, end := serves(t, url)
	alone, err := stile.Open(drive.Timely(t), "stile://"+first, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { alone.Close() })
	if _, err := alone.Mutex("serves").Lock(drive.Timely(t)); err != nil { // so the first serves, and the second stands by
		t.Fatal(err)
	}
	second, _ := serves(t, url)
	events := make(chan stile.Event, 1000)
	client := func(o stile.Observer) *stile.Client {
		c, err := stile.Open(drive.Timely(t), "stile://"+first+","+second, &stile.Options{Observer: o, Patience: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	holder := client(func(e stile.Event) { events <- e })
	lease, err := holder.Mutex("a").Lock(drive.Timely(t))
	if err != nil {
		t.Fatal(err)
	}
	end()
	next, err := client(nil).Mutex("a").Lock(drive.Timely(t))
	if err != nil {
		t.Fatal(err)
	}
	if lease.Check() == nil {
		t.Error("two clients hold the lock")
	}
	if next.Token() <= lease.Token() {
		t.Errorf("the next token is %d; want more than %d", next.Token(), lease.Token())
	}
	for danger, late := false, drive.Timely(t).Done(); ; {
		select {
		case e := <-events:
			danger = danger || e.Kind == stile.EventJeopardy
			if e.Kind == stile.EventLost && !danger {
				t.Error("the holder lost its lock and did not learn of the danger before")
			}
			if e.Kind == stile.EventLost {
				return
			}
		case <-late:
			t.Fatal("the holder does not learn of the loss")
		}
	}
}
