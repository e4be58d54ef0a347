package memcached

import (
	"bufio"
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stilelock/stile/driver"
)

func TestReadReply(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]reply{
		"STORED\r\n":                                  {status: "STORED"},
		"HD c7 t30 kname\r\n":                         {status: "HD", text: "c7 t30 kname"},
		"VA 2 kname c1 t-1\r\nhi\r\n":                 {status: "VA", text: "kname c1 t-1", data: []byte("hi")},
		"VA 0 c1\r\n\r\n":                             {status: "VA", text: "c1", data: []byte{}},
		"VA 4 c1\r\n\r\n\x00E\r\n":                    {status: "VA", text: "c1", data: []byte("\r\n\x00E")},
		"STAT pid 1\r\nSTAT version 1.6 x\r\nEND\r\n": {status: "STAT", stats: map[string]string{"pid": "1", "version": "1.6 x"}},
		"END\r\n":                        {status: "STAT"},
		"SERVER_ERROR out of memory\r\n": {status: "SERVER_ERROR", text: "out of memory"},
	} {
		in := strings.NewReader(text + "MN\r\n")
		r := bufio.NewReaderSize(iotest.OneByteReader(in), 16)
		got, err := readReply(r)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q = %+v, %v; want %+v", text, got, err, want)
		}
		if next, err := readReply(r); err != nil || next.status != "MN" {
			t.Errorf("after %q comes %+v, %v; want the next answer", text, next, err)
		}
	}
}

func TestReadReplyRefuses(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                             "EOF",
		"STORED":                       "EOF",
		"STORED\n":                     "does not end as it should",
		"\r\n":                         "empty line",
		"VA x\r\n":                     "no size",
		"VA -1\r\n":                    "no size",
		"VA 1999999999\r\n":            "no size",
		"VA 2 c1\r\nhi":                "EOF",
		"VA 2 c1\r\nlonger\r\n":        "longer than it said",
		"STAT a 1\r\nHD\r\n":           "among statistics",
		strings.Repeat("x", maxLine+9): "does not end",
	} {
		if got, err := readReply(bufio.NewReader(strings.NewReader(text))); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.20q = %+v, %v; want an error with %q", text, got, err, says)
		}
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	for want, got := range map[string][]byte{
		"mg stile/a k c t v\r\n":                    appendGet(nil, "stile/a"),
		"mg stile/a k c t\r\n":                      appendPeek(nil, "stile/a"),
		"add stile/a 0 1795253895 2\r\nhi\r\n":      appendStore(nil, "stile/a", 0, 1795253895, []byte("hi")),
		"cas stile/a 0 60 4 77\r\na\r\nb\r\nmn\r\n": append(appendStore(nil, "stile/a", 77, 60, []byte("a\r\nb")), "mn\r\n"...),
		"md stile/a C18446744073709551615\r\n":      appendDelete(nil, "stile/a", 1<<64-1),
		"mg a k c t\r\nmg b k c t\r\n":              appendPeek(appendPeek(nil, "a"), "b"),
	} {
		if string(got) != want {
			t.Errorf("request = %q; want %q", got, want)
		}
	}
}

func FuzzReadReply(f *testing.F) {
	for _, text := range []string{"HD c1\r\n", "VA 2 c1\r\nhi\r\n", "STAT a b\r\nEND\r\n", "\r\n", "VA 10"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := readReply(bufio.NewReader(bytes.NewReader(text)))
		if err == nil && r.status == "" {
			t.Errorf("%q is an answer of no kind", text)
		}
		_, _ = r.number('t')
		_, _ = r.version("a")
	})
}

func TestExplain(t *testing.T) {
	t.Parallel()
	l := &link{addr: "host:1"}
	for _, test := range []struct {
		err                   error
		says                  string
		rejected, unreachable bool
	}{
		{&refusal{"SERVER_ERROR out of memory storing object"}, "no memory left", true, false},
		{&refusal{"SERVER_ERROR object too large for cache"}, "option -I", true, false},
		{&refusal{"SERVER_ERROR temporary failure"}, "refused the request (SERVER_ERROR temporary failure)", true, false},
		{&unsent{errors.New("broken pipe")}, "broken pipe", true, true},
		{errors.New("reset"), "the connection to memcached at host:1 broke before the answer came: reset", false, true},
		{&unsent{driver.ErrClosed}, "the client is closed", true, false},
		{driver.ErrClosed, "closed while memcached had the request", false, false},
	} {
		err := l.explain(test.err)
		says(t, err, test.says)
		marks(t, err, test.rejected, test.unreachable)
	}
}
