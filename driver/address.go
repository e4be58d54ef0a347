package driver

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/stilelock/stile/internal/nearest"
)

// An Address is a parsed store URL: scheme://user:password@host1:port,host2:port/path?param=value. Its errors and its String
// never show the password or a value that may contain one.
type Address struct {
	Scheme, User, Password string
	Hosts                  []string // as given, "host" or "host:port"; empty if there is none
	Path                   string   // after the hosts, without the first slash, decoded
	Slash                  bool     // there is a slash: with an empty Path the URL ends in it, perhaps by mistake
	params                 map[string]string
	asked                  map[string]bool
}

// ParseAddress parses a store's URL.
func ParseAddress(rawURL string) (*Address, error) {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok || scheme == "" || strings.ContainsFunc(scheme, func(r rune) bool { return r > 127 || !plain(byte(r)) && r != '+' }) {
		return nil, errors.New("the store's URL must begin with a scheme, such as redis:// (the text is not shown: it may hold a password)")
	}
	a := &Address{Scheme: scheme, params: map[string]string{}, asked: map[string]bool{}}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, slash := strings.Cut(rest, "/")
	a.Slash = slash
	if err := a.parseAuthority(authority); err != nil {
		return nil, err
	}
	if authority != "" && strings.Contains(path+query, "@") {
		// Most likely, this text is the rest of a password. As a path or a parameter it would be shown.
		return nil, a.has("an @ after the host: in a password, '/', '?' and '@' must be written %2F, %3F and %40")
	}
	var err error
	if a.Path, err = url.PathUnescape(path); err != nil {
		return nil, a.has("a path with a bad % escape")
	}
	if err := a.parseQuery(query); err != nil {
		return nil, err
	}
	return a, nil
}

// has returns an error that names a mistake in the URL.
func (a *Address) has(what string) error {
	return fmt.Errorf("the %s:// URL has %s (the text is not shown: it may hold a password)", a.Scheme, what)
}

// parseAuthority parses the user, the password and the hosts.
func (a *Address) parseAuthority(authority string) (err error) {
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, password, _ := strings.Cut(authority[:i], ":")
		if a.User, err = url.PathUnescape(user); err != nil {
			return a.has("a user name with a bad % escape")
		}
		if a.Password, err = url.PathUnescape(password); err != nil {
			return a.has("a password with a bad % escape")
		}
		authority = authority[i+1:]
	}
	if authority != "" {
		a.Hosts = strings.Split(authority, ",")
	}
	for i, h := range a.Hosts {
		if strings.HasPrefix(h, "[") { // a zone as RFC 6874 has it: fe80::1%25eth0
			a.Hosts[i] = strings.Replace(h, "%25", "%", 1)
		}
	}
	for _, h := range a.Hosts {
		if !goodHost(h) {
			return a.has("a host that is not of the form host or host:port")
		}
	}
	return nil
}

// parseQuery parses the parameters.
func (a *Address) parseQuery(query string) error {
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		key, kerr := url.QueryUnescape(key)
		value, verr := url.QueryUnescape(value)
		if kerr != nil || verr != nil {
			return a.has("a parameter with a bad % escape")
		}
		if _, twice := a.params[key]; twice {
			return fmt.Errorf("parameter %q is given twice", key)
		}
		a.params[key] = value
	}
	return nil
}

func goodHost(h string) bool {
	whole := h
	if !strings.Contains(h, ":") || strings.HasSuffix(h, "]") {
		whole += ":1"
	}
	name, port, err := net.SplitHostPort(whole)
	if err != nil {
		return false
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return false
	}
	if strings.HasPrefix(h, "[") {
		_, err := netip.ParseAddr(name)
		return err == nil
	}
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) || r == '@' })
}

// HostPorts returns the hosts. A host without a port gets the default port. Without hosts, the result is the fallback only.
func (a *Address) HostPorts(fallback, port string) []string {
	if len(a.Hosts) == 0 {
		return []string{net.JoinHostPort(fallback, port)}
	}
	var list []string
	for _, h := range a.Hosts {
		if _, _, err := net.SplitHostPort(h); err != nil {
			h = net.JoinHostPort(strings.Trim(h, "[]"), port)
		}
		list = append(list, h)
	}
	return list
}

// At returns an address with one of the hosts and another scheme. It has the same parameters, and its [Address.Done] counts
// the parameters that were read so far as read.
func (a *Address) At(scheme, host string) *Address {
	one := *a
	one.Scheme, one.Hosts, one.params, one.asked = scheme, []string{host}, maps.Clone(a.params), maps.Clone(a.asked)
	return &one
}

// Param returns a parameter's text, or the default if it is not given.
func (a *Address) Param(key, fallback string) string {
	a.asked[key] = true
	if v, ok := a.params[key]; ok {
		return v
	}
	return fallback
}

// Duration returns a parameter that is a duration with a unit, such as 10s. The error names the parameter if its text is not
// a duration.
func (a *Address) Duration(key string, fallback time.Duration) (time.Duration, error) {
	text := a.Param(key, "")
	if text == "" {
		return fallback, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, Refused(fmt.Errorf("parameter %s must be a duration with its unit, such as 10s", key))
	}
	return d, nil
}

// Done returns an error if the URL has a parameter that was never read; it lists the known ones.
func (a *Address) Done() error {
	for _, key := range slices.Sorted(maps.Keys(a.params)) {
		if !a.asked[key] {
			known := slices.Sorted(maps.Keys(a.asked))
			return Refused(fmt.Errorf("unknown parameter %q for %s://%s; known: %s", key, a.Scheme, nearest.Hint(key, known), strings.Join(known, ", ")))
		}
	}
	return nil
}

// String returns the address without password and parameters, fit to be shown. A user without a password is left out too:
// most likely it is a password that lacks its colon.
func (a *Address) String() string {
	s := a.Scheme + "://"
	if a.User != "" && a.Password != "" {
		s += url.User(a.User).String() + "@"
	}
	return s + strings.Join(a.Hosts, ",") + (&url.URL{Path: "/" + a.Path}).EscapedPath()
}
