package consul

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"consul://a,b":                "consul:// takes one host",
		"consul://h/path":             "consul has no databases",
		"consul://hunter2@h":          "a token goes where a password does",
		"consul://h?prefix=/x":        "the prefix must not begin with a slash",
		"consul://h?token=hunter2":    `unknown parameter "token"`,
		"consul://:hunter2%0A@h":      "the token has a line break",
		"consul://h?tls_ca=x":         `unknown parameter "tls_ca"`,
		"consuls://h?tls_ca=/nowhere": "parameter tls_ca",
		"consuls://h?tls_cert=x":      "must be given together",
		"consul://h?dial_timeout=1":   "parameter dial_timeout must be a duration",
	} {
		_, err := tryOpen(t, url)
		says(t, err, want)
		if !driver.NotApplied(err) {
			t.Errorf("%s: %v; want a definite error", url, err)
		}
	}
}

func TestNobodyIsThere(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"consul://:hunter2@127.0.0.1:1", "consul://:hunter2@nowhere.invalid"} {
		_, err := tryOpen(t, url)
		says(t, err, "consul cannot be reached")
		if !driver.NotApplied(err) || !driver.IsUnreachable(err) {
			t.Errorf("open = %v; want a definite error, and that it may work later", err)
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s, authority := servertest.ConsulTLS(t)
	d := open(t, "consuls://"+s.Addr+"?tls_ca="+authority)
	c := claimOn("name")
	holds(t, d, c)
	leave(t, d, c)
	_, err := tryOpen(t, "consuls://"+s.Addr)
	says(t, err, "the certificate of consul", "is not trusted")
	_, err = tryOpen(t, "consul://"+s.Addr)
	says(t, err, "use consuls://")

	plain := servertest.Consul(t, nil)
	_, err = tryOpen(t, "consuls://"+plain.Addr)
	says(t, err, "use consul:// in place of consuls://")
}

// A token without a right gets an error with the reason, and leaves no key behind.
func TestRights(t *testing.T) {
	t.Parallel()
	const root = servertest.ConsulRoot
	s := servertest.ConsulACL(t)
	by := operator{t, "http://" + s.Addr}
	token := func(name, rules string) string {
		id := "6f2c6b4e-0000-4000-8000-0000000000" + name
		by.must(http.MethodPut, "acl/policy?token="+root, `{"Name": "p`+name+`", "Rules": `+quote(rules)+`}`)
		by.must(http.MethodPut, "acl/token?token="+root, `{"SecretID": "`+id+`", "Policies": [{"Name": "p`+name+`"}]}`)
		return id
	}
	enough := token("10", `key_prefix "stile/" { policy = "write" } session_prefix "" { policy = "write" }`)
	d := open(t, "consul://:"+enough+"@"+s.Addr)
	c := claimOn("name")
	holds(t, d, c)
	if err := renew(t, d, c); err != nil {
		t.Errorf("renewal = %v", err)
	}
	if list, err := d.List(timely(t), &driver.Query{}); err != nil || len(list) != 1 {
		t.Errorf("list = %+v, %v; want one name", list, err)
	}
	leave(t, d, c)
	identify(t, d)
	if notes := strings.Join(d.Traits().Remarks(), "\n"); !strings.Contains(notes, "does not let the agent's settings be read") {
		t.Errorf("the notes are %s", notes)
	}

	for name, test := range map[string]struct{ token, want string }{
		"none":    {"", "without a token"},
		"unknown": {"6f2c6b4e-dead-4000-8000-000000000009", "consul does not know this token"},
		"no session": {
			token("11", `key_prefix "stile/" { policy = "write" }`),
			"consul does not let this token do this; the package documentation of consul lists the rights",
		},
	} {
		_, err := tryOpen(t, "consul://:"+test.token+"@"+s.Addr)
		says(t, err, test.want)
		if !driver.NotApplied(err) || test.token != "" && strings.Contains(err.Error(), test.token) {
			t.Errorf("%s: open = %v; want a definite error without the token", name, err)
		}
	}
	for name, rules := range map[string]string{
		"12": `key_prefix "other/" { policy = "write" } session_prefix "" { policy = "write" }`,
		"13": `key_prefix "stile/" { policy = "read" } session_prefix "" { policy = "write" }`,
	} {
		d := open(t, "consul://:"+token(name, rules)+"@"+s.Addr)
		_, err := d.Enter(timely(t), claimOn("name"))
		says(t, err, "consul does not let this token do this")
		if !driver.NotApplied(err) {
			t.Errorf("enter = %v; want a definite error", err)
		}
		if name == "12" { // the other token may read the id, which the first has made
			_, err := d.Identity(timely(t))
			says(t, err, "consul does not let this token do this")
		} else {
			identify(t, d)
		}
	}
}

// If the token loses its right to a name, the renewals of that name's claims fail, and no others in the same transaction.
func TestARefusalIsForOneClaim(t *testing.T) {
	t.Parallel()
	const root, id = servertest.ConsulRoot, "6f2c6b4e-0000-4000-8000-000000000020"
	s := servertest.ConsulACL(t)
	by := operator{t, "http://" + s.Addr}
	rules := func(more string) string {
		all := `key_prefix "stile/" { policy = "write" } session_prefix "" { policy = "write" } `
		return `{"Name": "p", "Rules": ` + quote(all+more) + `}`
	}
	var policy struct{ ID string }
	if err := json.Unmarshal(by.must(http.MethodPut, "acl/policy?token="+root, rules("")), &policy); err != nil {
		t.Fatal(err)
	}
	by.must(http.MethodPut, "acl/token?token="+root, `{"SecretID": "`+id+`", "Policies": [{"Name": "p"}]}`)
	n := &counter{next: transport(time.Second, nil)}
	d, err := New(timely(t), &Options{Client: &http.Client{Transport: n}, URL: "http://" + s.Addr, Token: id})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close(); n.next.CloseIdleConnections() })

	names := []string{"good", "bad", "gone", "worse", "fine"}
	var claims []*driver.Claim
	for _, name := range names {
		c := claimOn(name)
		holds(t, d, c)
		claims = append(claims, c)
	}
	by.must(http.MethodDelete, "kv/stile/gone/.lock?token="+root, "")
	by.must(http.MethodPut, "acl/policy/"+policy.ID+"?token="+root,
		rules(`key_prefix "stile/bad/" { policy = "deny" } key "stile/worse/.lock" { policy = "deny" }`))
	servertest.Until(t, "the rules count", func() bool { return renew(t, d, claims[1]) != nil && renew(t, d, claims[3]) != nil })
	n.take()
	answers := d.Renew(timely(t), claims)
	asked := 0
	for _, r := range n.take() {
		if r == http.MethodPut+" /v1/txn" {
			asked++
		}
	}
	for i, name := range names {
		switch err := answers[i].Err; name {
		case "bad", "worse":
			says(t, err, "consul does not let this token do this")
			if !driver.NotApplied(err) {
				t.Errorf("renewal of %s = %v; want a definite error", name, err)
			}
		case "gone":
			if !errors.Is(err, driver.ErrGone) {
				t.Errorf("renewal of %s = %v; want ErrGone", name, err)
			}
		default:
			if err != nil || answers[i].TTL <= 0 {
				t.Errorf("renewal of %s = %+v; want it renewed", name, answers[i])
			}
		}
	}
	if asked > 3 { // for all, for the claims that are not denied, and for the place of the missing claim
		t.Errorf("the renewal took %d transactions; want 3 at most", asked)
	}
}

func quote(text string) string { return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"` }

func TestDelays(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	d := open(t, "consul://"+s.Addr)
	c := claimOn("name")
	c.Delay = 61 * time.Second
	_, err := d.Enter(timely(t), c)
	says(t, err, "the lock-delay is 1m1s; consul keeps 1m0s at most")
	c = shared("name")
	c.Delay = time.Second
	_, err = d.Enter(timely(t), c)
	says(t, err, "consul keeps a lock-delay for exclusive claims alone")

	// The lock-delay of a writer that died keeps readers out too.
	writer := claimOn("name")
	writer.TTL, writer.Delay = servertest.ConsulFloor, time.Second
	start := time.Now()
	holds(t, d, writer)
	reader := shared("name")
	servertest.Until(t, "the reader holds", func() bool { return enter(t, d, reader).Holds })
	if early := writer.TTL + writer.Delay - time.Since(start); early > 0 {
		t.Errorf("the reader held %v before the end of the lock-delay", early)
	}
	leave(t, d, reader)
	by := operator{t, "http://" + s.Addr}
	if left := by.under("stile/"); len(left) != 0 {
		t.Errorf("the store has %+v; want nothing", left)
	}
}
