package casqueue

import (
	"reflect"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

func queue() driver.Queue {
	return driver.Queue{Capacity: 5, Last: 1<<53 - 1, Entries: []driver.Entry{
		{
			ID: "a", Client: "x", Owner: "job/é", Record: "\u2028<&>\"\\\n",
			Ticket: 7, Weight: 2, Since: 1, Ends: 2, Delay: 3, Notified: true,
		},
		{ID: "b", Record: "\xff\x00", Ticket: 8, Weight: 5, Ends: 9, Left: true},
		{ID: "c", Record: string([]byte{0, 1, 2}), Ticket: 9, Weight: 1},
	}}
}

func TestValues(t *testing.T) {
	for _, want := range []driver.Queue{queue(), {Last: 3}, {}} {
		got, err := decode("a/b ü", &Value{Text: encode("a/b ü", &want)})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("decoded: %+v, %v; want %+v", got, err, want)
		}
	}
	q := driver.Queue{Capacity: 1, Last: 9, Entries: []driver.Entry{
		{ID: "i", Client: "c", Ticket: 9, Weight: 1, Since: 1, Ends: 2, Notified: true, Record: "r"},
	}}
	want := `{"stile":1,"name":"n","last":9,"capacity":1,"claims":[{"id":"i","client":"c","ticket":9,"weight":1,"since":1,` +
		`"ends":2,"told":true,"record":"r"}]}`
	if got := string(encode("n", &q)); got != want {
		t.Errorf("the value is %s; want %s, which others have stored", got, want)
	}
}

func FuzzDecode(f *testing.F) {
	q := queue()
	f.Add(encode("name", &q))
	f.Add([]byte(`{"stile":1,"name":"name"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		q, err := decode("name", &Value{Text: text})
		if err != nil {
			return
		}
		if len(q.Entries) == 0 {
			q.Capacity = 0 // an empty queue forgets it
		}
		again, err := decode("name", &Value{Text: encode("name", &q)})
		if err != nil || !reflect.DeepEqual(q, again) {
			t.Errorf("%q decodes to %+v, and that encoded to %+v, %v", text, q, again, err)
		}
	})
}

func TestPace(t *testing.T) {
	for _, test := range []struct {
		news         string
		since, ahead int
		brisk, calm  string
	}{
		{"just now", 0, 1, "1ms", "2ms"},
		{"a moment ago", 100, 1, "5ms", "5ms"},
		{"a while ago", 500, 1, "25ms", "20ms"},
		{"long ago", 5000, 1, "60ms", "20ms"},
		{"just now", 0, 4, "4ms", "8ms"},
		{"long ago", 5000, 50, "100ms", "200ms"},
		{"it does not matter", 0, 0, "1ms", "2ms"},
	} {
		since := time.Duration(test.since) * time.Millisecond
		if got, want := brisk.pause(since, test.ahead).String(), test.brisk; got != want {
			t.Errorf("news %s, %d ahead: a pause of %s; want %s", test.news, test.ahead, got, want)
		}
		if got, want := calm.pause(since, test.ahead).String(), test.calm; got != want {
			t.Errorf("news %s, %d ahead: a pause of %s; want %s", test.news, test.ahead, got, want)
		}
	}
}

func TestNews(t *testing.T) {
	queue := func(entries ...driver.Entry) *sight {
		return &sight{queue: driver.Queue{Capacity: 1, Entries: entries}}
	}
	holder, waiter := driver.Entry{ID: "a", Ticket: 1, Ends: 10, Notified: true}, driver.Entry{ID: "b", Ticket: 2, Ends: 10}
	longer, left, asked := holder, holder, holder
	longer.Ends, left.Left, asked.Asks = 20, true, 1
	seen := queue(holder, waiter)
	for _, test := range []struct {
		what string
		is   *sight
		want bool
	}{
		{"nothing", queue(holder, waiter), false},
		{"a renewal", queue(longer, waiter), false},
		{"one who came", queue(holder, waiter, driver.Entry{ID: "c", Ticket: 3}), true},
		{"one who left", queue(waiter), true},
		{"one who left and is kept", queue(left, waiter), true},
		{"one who was asked for it", queue(asked, waiter), true},
	} {
		if got := test.is.news(seen); got != test.want {
			t.Errorf("%s is news: %v; want %v", test.what, got, test.want)
		}
	}
	if !seen.news(nil) {
		t.Error("the first look is no news")
	}
}
