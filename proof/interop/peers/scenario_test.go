//go:build unix

package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A fakeLock is a lock inside the test, with one fault.
type fakeLock struct {
	fault string

	mu    sync.Mutex // guards the fields below
	queue []*fakeClient
	token int64
}

type fakeClient struct {
	l       *fakeLock
	ends    time.Duration
	granted bool
	grants  chan string
}

func (l *fakeLock) kind() kind {
	k := kind{name: "fake", ends: session}
	k.start = func() (client, error) {
		return &fakeClient{l: l, ends: k.ends, grants: make(chan string, 4)}, nil
	}
	return k
}

// settleLocked grants the lock to the head of the queue.
func (l *fakeLock) settleLocked() {
	for i, c := range l.queue {
		if c.granted || i > 0 && l.fault != "grants to all" {
			continue
		}
		if l.fault != "repeats a token" || l.token == 0 {
			l.token++
		}
		c.granted = true
		if l.fault == "does not renew" {
			c.removeAfter(c.ends)
		}
		c.grants <- strconv.FormatInt(l.token, 10)
	}
}

func (c *fakeClient) remove() {
	c.granted = false
	c.l.queue = slices.DeleteFunc(c.l.queue, func(other *fakeClient) bool { return other == c })
	c.l.settleLocked()
}

func (c *fakeClient) lock(string) error {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.l.queue = append(c.l.queue, c)
	c.l.settleLocked()
	return nil
}

func (c *fakeClient) try(string) (bool, error) { return c.l.fault == "a try always holds", nil }

func (c *fakeClient) held(within time.Duration) (string, error) {
	select {
	case token := <-c.grants:
		return token, nil
	case <-time.After(within):
		return "", errWaits
	}
}

func (c *fakeClient) unlock() error {
	if c.l.fault == "keeps what is given back" {
		return nil
	}
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if !slices.Contains(c.l.queue, c) {
		if c.l.fault == "frees what is another's" {
			c.l.queue = slices.DeleteFunc(c.l.queue, func(other *fakeClient) bool { return other.granted })
			c.l.settleLocked()
		}
		return errors.New("the lock is not held")
	}
	c.remove()
	return nil
}

// pause and kill are the same to the lock: nothing renews.
func (c *fakeClient) pause() { c.kill() }

func (c *fakeClient) resume() {}

func (c *fakeClient) kill() {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	after := c.ends * 3 / 4
	switch {
	case c.l.fault == "keeps what the dead held" && c.granted, c.l.fault == "keeps the place of the dead" && !c.granted:
		return
	case c.l.fault == "frees at once":
		after = 0
	}
	c.removeAfter(after)
}

func (c *fakeClient) removeAfter(d time.Duration) {
	time.AfterFunc(d, func() {
		c.l.mu.Lock()
		defer c.l.mu.Unlock()
		c.remove()
	})
}

func (c *fakeClient) close() {}

// The scenarios detect each fault that a lock can have.
func TestScenarios(t *testing.T) {
	for _, tt := range []struct{ fault, meet, queue, late, outlast string }{
		{"", "", "", "", ""},
		{
			"grants to all", "the contender: it holds, token 2, while another client does", "client 2 of three: it holds",
			"the contender: it holds", "the contender: it holds",
		},
		{"a try always holds", "a try holds while another client does", "", "", ""},
		{
			"keeps what is given back", "the contender, after the unlock: it still waits", "the last of three: it still waits",
			"a third client, after the contender's unlock: it still waits", "it still waits",
		},
		{
			"keeps what the dead held", "the contender, after the holder's death: it still waits", "",
			"when the holder was stopped: it still waits", "",
		},
		{"keeps the place of the dead", "", "the last of three: it still waits", "", ""},
		{"frees at once", "before a session could end", "", "before a lease could end", ""},
		{"frees what is another's", "", "", "a third client, after the late release: it holds", ""},
		{"does not renew", "", "", "", "the contender holds, token \"2\", while the holder renews"},
		{
			"repeats a token", "the contender, after the unlock: token 1 after 1", "the last of three: token 1 after 1",
			"token 1 after 1", "token 1 after 1",
		},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := (&fakeLock{fault: tt.fault}).kind()
				expect(t, "meet", meet(k, k, &result{}), tt.meet)
				k = (&fakeLock{fault: tt.fault}).kind()
				expect(t, "queue", queue(k, k, k, &result{}), tt.queue)
				k = (&fakeLock{fault: tt.fault}).kind()
				expect(t, "late", late(k, k, &result{}), tt.late)
				k = (&fakeLock{fault: tt.fault}).kind()
				expect(t, "outlast", outlast(k, k, &result{}), tt.outlast)
			})
		})
	}
}

func TestSharing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := (&fakeLock{fault: "grants to all"}).kind()
		expect(t, "two that share", meet(k, k, &result{pair: pair{shares: true}}), "")
		k = (&fakeLock{}).kind()
		expect(t, "two that do not", meet(k, k, &result{pair: pair{shares: true}}), "it still waits")
	})
}

func TestTable(t *testing.T) {
	var out strings.Builder
	wrong := table(&out, []result{
		{store: "S", pair: pair{holder: "a", contender: "b"}, handover: 5 * time.Millisecond, killed: 2700 * time.Millisecond},
		{store: "S", pair: pair{holder: "b", contender: "a"}, err: errors.New("it hangs")},
		{store: "S", pair: pair{holder: "b", contender: "c", shares: true}, shared: true},
	})
	if wrong != 1 {
		t.Errorf("%d are wrong, want 1", wrong)
	}
	for _, line := range []string{
		"<summary>S, 3 rows</summary>",
		"| a | b | waits | 5ms | 2.7s | – |",
		"| b | a | **WRONG** | – | – | – |",
		"| b | c | holds too | – | – | – |",
		"S, held by b, wanted by a: it hangs",
	} {
		if !slices.Contains(strings.Split(out.String(), "\n"), line) {
			t.Errorf("the table has no line %q:\n%s", line, &out)
		}
	}
}

func TestLeaseTable(t *testing.T) {
	var out strings.Builder
	leaseTable(&out, []result{
		{store: "S", pair: pair{holder: "a", contender: "b"}, expired: 3540 * time.Millisecond, outlasts: true, told: true},
		{store: "S", pair: pair{holder: "b", contender: "a"}, expired: 2 * time.Second},
		{store: "T", pair: pair{holder: "c", contender: "d"}},
	})
	want := []string{
		"| a | b | yes | 3.5s | frees nothing, and is told |",
		"| b | a | cannot | 2s | frees nothing |",
		"",
		"</details>",
		"",
	}
	if got := strings.Split(out.String(), "\n")[5:]; !slices.Equal(got, want) {
		t.Errorf("the table has %q, want %q", got, want)
	}
}

func expect(t *testing.T, what string, err error, want string) {
	t.Helper()
	if want == "" && err == nil {
		return
	}
	if err == nil || want == "" || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v; want %q", what, err, want)
	}
}
