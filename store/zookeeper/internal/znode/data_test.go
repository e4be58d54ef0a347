package znode

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

func TestData(t *testing.T) {
	long := strings.Repeat("\xff", driver.MaxRecord)
	for _, record := range []string{"", "plain", `{"a":"b"}`, "\x00\xff\xfe", "é\u2028\n", long} {
		d := NewData(&driver.Claim{Client: "client", Owner: "owner", Record: record})
		text := d.Text()
		if !utf8.ValidString(text) {
			t.Errorf("record %.20q: the node's data is not valid UTF-8", record)
		}
		if got := ReadData(text); got.Client != "client" || got.Owner != "owner" || got.Record != record || got.Kept != 0 {
			t.Errorf("record %.20q is read as %.20q of %q and %q", record, got.Record, got.Client, got.Owner)
		}
		d.Kept = 5
		if got := ReadData(d.Text()); got.Kept != 5 || got.Record != record {
			t.Errorf("record %.20q of a claim that is kept is read as %+v", record, got)
		}
	}
}

// Data of other clients are shown unchanged: Curator writes the host's address.
func TestForeignData(t *testing.T) {
	for _, text := range []string{"127.0.0.1", "", "{", `{"stile":2,"record":"x"}`, "[]", "null", "\xff"} {
		if got := ReadData(text); got != (Data{Record: text}) {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
	if got := ReadData(strings.Repeat("x", driver.MaxRecord+1)); len(got.Record) != driver.MaxRecord {
		t.Errorf("a long text is shown with %d bytes; want %d", len(got.Record), driver.MaxRecord)
	}
}

// A claim's later node has the ticket and the time of the first. Earlier versions wrote no time; the node's own stands in.
func TestFirst(t *testing.T) {
	t.Parallel()
	stat := wire.Stat{Czxid: 7, Ctime: 70}
	amended := NewData(&driver.Claim{})
	amended.First = First{Ticket: 5, Since: 50}
	for text, want := range map[string]First{
		"127.0.0.1":              {Ticket: 7, Since: 70},
		`{"stile":1}`:            {Ticket: 7, Since: 70},
		`{"stile":1,"ticket":5}`: {Ticket: 5, Since: 70},
		amended.Text():           {Ticket: 5, Since: 50},
	} {
		if held := ReadData(text); held.FirstBy(&stat) != want {
			t.Errorf("the first node by %q is %+v; want %+v", text, held.FirstBy(&stat), want)
		}
	}
}
