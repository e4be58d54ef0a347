package driver_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

func TestParseAddress(t *testing.T) {
	tests := []struct {
		url            string
		user, password string
		hosts          []string
		path, shown    string
	}{
		{"memory://", "", "", nil, "", "memory:///"},
		{"redis://localhost", "", "", []string{"localhost"}, "", "redis://localhost/"},
		{"redis://:pw@h:1/0", "", "pw", []string{"h:1"}, "0", "redis://h:1/0"},
		{"redis://u:p%2F%3F%40%3a@h", "u", "p/?@:", []string{"h"}, "", "redis://u@h/"},
		{"redis://pw@h", "pw", "", []string{"h"}, "", "redis://h/"},
		{"redis://u:p@w@h", "u", "p@w", []string{"h"}, "", "redis://u@h/"},
		{"redis://u:a:b@h", "u", "a:b", []string{"h"}, "", "redis://u@h/"},
		{"redis://a%3Ab:c@h", "a:b", "c", []string{"h"}, "", "redis://a%3Ab@h/"},
		{"redis+sentinel://a:1,b,c:3/master", "", "", []string{"a:1", "b", "c:3"}, "master", "redis+sentinel://a:1,b,c:3/master"},
		{"redis://[::1]:6379", "", "", []string{"[::1]:6379"}, "", "redis://[::1]:6379/"},
		{"redis://[fe80::1%25eth0]:1", "", "", []string{"[fe80::1%eth0]:1"}, "", "redis://[fe80::1%eth0]:1/"},
		{"redis://[fe80::1%eth0]", "", "", []string{"[fe80::1%eth0]"}, "", "redis://[fe80::1%eth0]/"},
		{"sqlite:///a%20b/c%25.db", "", "", nil, "a b/c%.db", "sqlite:///a%20b/c%25.db"},
		{"sqlite:///me@home/x.db", "", "", nil, "me@home/x.db", "sqlite:///me@home/x.db"},
		{"redis://h/%40%0A", "", "", []string{"h"}, "@\n", "redis://h/@%0A"},
		{"redis://h?a=b", "", "", []string{"h"}, "", "redis://h/"},
	}
	for _, test := range tests {
		a, err := driver.ParseAddress(test.url)
		if err != nil {
			t.Errorf("ParseAddress(%q) = %v", test.url, err)
			continue
		}
		if a.User != test.user || a.Password != test.password || !slices.Equal(a.Hosts, test.hosts) || a.Path != test.path {
			t.Errorf("ParseAddress(%q) = %q, %q, %q, %q; want %q, %q, %q, %q", test.url,
				a.User, a.Password, a.Hosts, a.Path, test.user, test.password, test.hosts, test.path)
		}
		if got := a.String(); got != test.shown {
			t.Errorf("ParseAddress(%q) is shown as %q, want %q", test.url, got, test.shown)
		}
	}
}

func TestParseAddressRefuses(t *testing.T) {
	const hidden = " (the text is not shown: it may hold a password)"
	tests := []struct{ url, want string }{
		{"", "the store's URL must begin with a scheme, such as redis://" + hidden},
		{"hunter2", "the store's URL must begin with a scheme, such as redis://" + hidden},
		{"://hunter2@h", "the store's URL must begin with a scheme, such as redis://" + hidden},
		{"hun:ter2://h", "the store's URL must begin with a scheme, such as redis://" + hidden},
		{"redis://u:hunter2%zz@h", "the redis:// URL has a password with a bad % escape" + hidden},
		{"redis://%zz:hunter2@h", "the redis:// URL has a user name with a bad % escape" + hidden},
		{"redis://h/%zz", "the redis:// URL has a path with a bad % escape" + hidden},
		{"redis://h?%zz=1", "the redis:// URL has a parameter with a bad % escape" + hidden},
		{"redis://h?a=%zz", "the redis:// URL has a parameter with a bad % escape" + hidden},
		{"redis://h?a=1&a=hunter2", `parameter "a" is given twice`},
		{"redis://u:7/hunter2@h/0", "the redis:// URL has an @ after the host: in a password, '/', '?' and '@' must be written %2F, %3F and %40" + hidden},
		{"redis://u:7?hunter2@h", "the redis:// URL has an @ after the host: in a password, '/', '?' and '@' must be written %2F, %3F and %40" + hidden},
		{"redis://u:@/hunter2@h", "the redis:// URL has an @ after the host: in a password, '/', '?' and '@' must be written %2F, %3F and %40" + hidden},
		{"redis://u:p@7?hunter2=a@h", "the redis:// URL has an @ after the host: in a password, '/', '?' and '@' must be written %2F, %3F and %40" + hidden},
	}
	for _, host := range []string{
		"u:hunter2/@h", "h:", ":1", "h:0", "h:65536", "h:+1", "h:x", "a b", "a\tb", "a\rb", "a\x00", "::1", "[::1", "::1]", "[]", "[h]", "[::1]x:1",
		"a,", ",", "a,,b", "a:1:2", "a\u00a0",
	} {
		tests = append(tests, struct{ url, want string }{"redis://" + host, "the redis:// URL has a host that is not of the form host or host:port" + hidden})
	}
	for _, test := range tests {
		a, err := driver.ParseAddress(test.url)
		if err == nil {
			t.Errorf("ParseAddress(%q) = %v, want an error", test.url, a)
		} else if err.Error() != test.want {
			t.Errorf("ParseAddress(%q) = %q, want %q", test.url, err, test.want)
		}
	}
}

// TestSlash checks that Slash distinguishes a URL with a slash before its path from one without.
func TestSlash(t *testing.T) {
	for url, want := range map[string]bool{
		"sqlite://": false, "sqlite://?a=/": false, "sqlite:///": true, "sqlite:///?a=b": true, "sqlite:///x": true, "redis://h": false, "redis://h/": true,
	} {
		if a, err := driver.ParseAddress(url); err != nil || a.Slash != want {
			t.Errorf("ParseAddress(%q) = %+v, %v; want a slash: %v", url, a, err, want)
		}
	}
}

func TestHostPorts(t *testing.T) {
	a, err := driver.ParseAddress("x://a,b:2,[::1],[::2]:3,1.2.3.4")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a:9", "b:2", "[::1]:9", "[::2]:3", "1.2.3.4:9"}
	if got := a.HostPorts("localhost", "9"); !slices.Equal(got, want) {
		t.Errorf("hosts = %q, want %q", got, want)
	}
	if a, err = driver.ParseAddress("x://"); err != nil {
		t.Fatal(err)
	}
	if got := a.HostPorts("::1", "9"); !slices.Equal(got, []string{"[::1]:9"}) {
		t.Errorf("hosts = %q, want the fallback", got)
	}
}

func TestParameters(t *testing.T) {
	a, err := driver.ParseAddress("x://h?wait=3s&name=a+b%26&empty=&bad=3&past=-1s&other")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"name": "a b&", "empty": "", "absent": "fallback"} {
		if got := a.Param(key, "fallback"); got != want {
			t.Errorf("parameter %s = %q, want %q", key, got, want)
		}
	}
	for key, want := range map[string]time.Duration{"wait": 3 * time.Second, "empty": time.Minute, "gone": time.Minute} {
		if got, err := a.Duration(key, time.Minute); got != want || err != nil {
			t.Errorf("parameter %s = %v, %v; want %v", key, got, err, want)
		}
	}
	for _, key := range []string{"bad", "past"} {
		_, err := a.Duration(key, 0)
		if want := "parameter " + key + " must be a duration with its unit, such as 10s"; err == nil || err.Error() != want || !driver.NotApplied(err) {
			t.Errorf("parameter %s: %v; want %s, rejected", key, err, want)
		}
	}
	want := `unknown parameter "other" for x://; known: absent, bad, empty, gone, name, past, wait`
	if err := a.Done(); err == nil || err.Error() != want || !driver.NotApplied(err) {
		t.Errorf("done = %v; want %s, rejected", err, want)
	}
	a.Param("other", "")
	if err := a.Done(); err != nil {
		t.Errorf("done = %v, want nil once all were asked for", err)
	}
}

// FuzzParseAddress checks that a password is shown nowhere, even when it is not escaped and cuts the URL in odd places.
func FuzzParseAddress(f *testing.F) {
	for _, seed := range []string{"", "a/b", "7/b", "7?b", "p@", "%", "1,2", "[::1]", "7?a=b&a=b", "@/", "\n", ":", "0#"} {
		f.Add(seed, "u", "h:1/db?x=1")
	}
	f.Fuzz(func(t *testing.T, password, user, rest string) {
		const canary = "canary"
		user, rest = strings.ReplaceAll(user, canary, ""), strings.ReplaceAll(rest, canary, "")
		if strings.ContainsAny(user, "/?@:") {
			user = ""
		}
		a, err := driver.ParseAddress("redis://" + user + ":" + password + canary + "@" + rest)
		texts := []string{"", ""}
		if err != nil {
			texts[0] = err.Error()
		} else {
			texts[0] = a.String()
			if err := a.Done(); err != nil {
				texts[1] = err.Error()
			}
		}
		for _, text := range texts {
			if strings.Contains(text, canary) || strings.ContainsAny(text, "\n\r") {
				t.Errorf("password %q, user %q, rest %q: %q", password, user, rest, text)
			}
		}
		if err != nil {
			return
		}
		again, err := driver.ParseAddress(a.String())
		if strings.Contains(a.Path, "@") {
			return // shown as it reads best
		}
		if err != nil || again.User != a.User || again.Path != a.Path || !slices.Equal(again.Hosts, a.Hosts) {
			t.Errorf("%q is read back as %+v, %v", a, again, err)
		}
	})
}

func TestAddressAt(t *testing.T) {
	a, err := driver.ParseAddress("many://u:pw@a:1,b:2/3?wait=3s&max=5")
	if err != nil {
		t.Fatal(err)
	}
	a.Param("max", "")
	b := a.At("one", "b:2")
	if got, want := b.String(), "one://u@b:2/3"; got != want {
		t.Errorf("at = %s, want %s", got, want)
	}
	if b.Password != "pw" || b.Param("wait", "") != "3s" {
		t.Errorf("at has password %q and wait %q; want those of the whole", b.Password, b.Param("wait", ""))
	}
	if err := b.Done(); err != nil {
		t.Errorf("done = %v; want nil, since the whole asked for max", err)
	}
	if err := a.Done(); err == nil {
		t.Error("done of the whole = nil; want an error, since only a part asked for wait")
	}
}
