package serve

import (
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/store/remote"
)

// defaultListen has the port that clients use for a URL without one.
const defaultListen = "127.0.0.1:" + remote.DefaultPort

// The values of --page.
const (
	pageOn  = "on"
	pageOff = "off"
)

// A front is how clients reach the service.
type front struct {
	listen    string
	tokens    string   // the file; "" if clients need no credentials
	cert, key string   // the files; "" for plain HTTP
	proxied   bool     // a proxy in front brings TLS
	hosts     []string // by which clients ask, beside addresses
	keys      string   // the file with the secrets of all replicas; "" if this service draws its own
	consul    bool     // also serve Consul's clients
	page      string   // pageOn or pageOff
	classes   []string // the beginnings of names that are classes in the metrics
}

func (f *front) flags(to *pflag.FlagSet) {
	to.StringVar(&f.listen, "listen", defaultListen,
		"the `address` to listen on; port 0 takes a free one. An address that other machines reach needs --tokens and TLS (default: "+
			defaultListen+")")
	to.Lookup("listen").DefValue = "" // its text has the default
	to.StringVar(&f.tokens, "tokens", "",
		"the `file` that stile serve token wrote; it is read again when it changes (default: no credentials are needed)")
	to.StringVar(&f.cert, "tls-cert", "",
		"the `file` with the certificate, and the authorities between; it is read again when it changes (default: plain HTTP)")
	to.StringVar(&f.key, "tls-key", "", "the `file` with its key, which only its owner may use")
	to.BoolVar(&f.proxied, "tls-by-proxy", false, "a proxy in front brings TLS, so plain HTTP may come from other machines")
	to.StringArrayVar(&f.hosts, "host", nil,
		"a `name` by which clients ask for a service without TLS of its own; may be repeated (default: localhost and addresses)")
	to.StringVar(&f.keys, "keys", "",
		"the `file` with the secret keys that all replicas share, for the page and for --consul; it is made if it is missing "+
			"(default: a login to the page ends with this service)")
	to.BoolVar(&f.consul, "consul", false, "also serve Consul's own clients, such as consul lock; it needs --keys")
	to.StringVar(&f.page, "page", pageOn, "`on`, or off for a service without a page for browsers (default: "+pageOn+")")
	to.Lookup("page").DefValue = ""
	to.StringArrayVar(&f.classes, "metrics-class", nil,
		"a `prefix`: names that begin so are a class of their own in /metrics; may be repeated (default: one class for all)")
}

// hostName is a name in DNS. Its last part has a letter: otherwise it is an address.
var hostName = regexp.MustCompile(`^([A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9-]*[A-Za-z][A-Za-z0-9-]*$`)

// check refuses a front that lets strangers in, or shows tokens to those on the way.
func (f *front) check() error {
	outside, err := f.outside()
	if err != nil {
		return err
	}
	if f.tokens == "" {
		switch {
		case outside:
			return exit.Usage("--listen %s: other machines are served only with --tokens and TLS; without, give a loopback address, "+
				"such as %s", f.listen, defaultListen)
		case f.proxied:
			return exit.Usage("--tls-by-proxy needs --tokens: a proxy lets everybody in")
		case len(f.hosts) > 0:
			return exit.Usage("--host needs --tokens: without, only requests to localhost and loopback addresses are served")
		}
	}
	switch {
	case (f.cert == "") != (f.key == ""):
		return exit.Usage("--tls-cert and --tls-key go together")
	case f.cert != "" && f.proxied:
		return exit.Usage("--tls-by-proxy means that the service has no --tls-cert of its own: give one of them")
	case outside && f.cert == "" && !f.proxied:
		return exit.Usage("--listen %s: tokens would pass other machines as plain text: give --tls-cert and --tls-key, or "+
			"--tls-by-proxy if a proxy in front brings TLS", f.listen)
	}
	for _, name := range f.hosts {
		if !hostName.MatchString(name) {
			return exit.Usage("--host %.100q: it is a name without a port, such as locks.example.org; addresses need no --host", name)
		}
	}
	return nil
}

// outside reports whether other machines may reach the address.
func (f *front) outside() (bool, error) {
	host, port, err := net.SplitHostPort(f.listen)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		return false, exit.Usage("--listen %s: it is an address with a port up to 65535, such as %s", f.listen, defaultListen)
	}
	if host == "" || host == "localhost" {
		return host == "", nil
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false, exit.Usage("--listen %s: it is a name: give an address of this machine, or :%s for all of them", f.listen, port)
	}
	return !addr.IsLoopback(), nil
}

// url returns the URL for clients of a listener.
func (f *front) url(at net.Addr) string {
	scheme, address := "stile", at.String()
	if f.cert != "" {
		scheme = "stiles"
	}
	if on, err := netip.ParseAddrPort(address); err == nil && on.Addr().IsUnspecified() {
		name := "ADDRESS"
		if len(f.hosts) > 0 {
			name = f.hosts[0]
		}
		address = net.JoinHostPort(name, strconv.Itoa(int(on.Port())))
	}
	return scheme + "://" + address
}

// whom says whom the service answers.
func (f *front) whom(at net.Addr) string {
	text := "clients need a token"
	if f.tokens == "" {
		text = "every program of this machine is answered, without credentials"
	}
	if f.consul {
		text += "\nfor Consul's clients: CONSUL_HTTP_ADDR=" + strings.Replace(f.url(at), "stile", "http", 1)
	}
	return text
}
