package consul

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/secure"
	"github.com/stilelock/stile/internal/work"
)

const (
	defaultURL         = "http://127.0.0.1:8500"
	defaultDialTimeout = 5 * time.Second

	// keepAlive is how often an idle connection is checked, so that a connection to a dead host does not hang for long.
	keepAlive = 5 * time.Second
	idleAfter = time.Minute
)

func init() {
	for _, scheme := range []string{"consul", "consuls"} {
		driver.Register(scheme, func(ctx context.Context, a *driver.Address) (driver.Driver, error) {
			d, err := Open(ctx, a)
			if err != nil {
				return nil, err
			}
			return d, nil
		})
	}
}

// Open connects to the Consul agent at an address:
//
//	consul://[:token@]host[:8500]
//
// and with consuls in place of consul by TLS, on port 8501 unless the address has one. Parameters: prefix, dc, namespace,
// dial_timeout; with TLS, the files tls_ca, tls_cert and tls_key, and tls_server_name. An empty prefix (prefix=) makes
// keys begin with the name, where consul lock keeps its own.
func Open(ctx context.Context, a *driver.Address) (*Driver, error) {
	o, err := optionsOf(a)
	if err != nil {
		return nil, driver.Refused(err)
	}
	d, err := newDriver(o)
	if err != nil {
		return nil, driver.Refused(err)
	}
	d.agent.owned = true
	if err := d.probe(ctx); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// optionsOf translates an address.
func optionsOf(a *driver.Address) (*Options, error) {
	o := &Options{
		Datacenter: a.Param("dc", ""), Namespace: a.Param("namespace", ""), Prefix: a.Param("prefix", DefaultPrefix),
	}
	o.Bare = o.Prefix == ""
	timeout, err := a.Duration("dial_timeout", defaultDialTimeout)
	if err != nil {
		return nil, err
	}
	scheme, port, trust := "http", "8500", (*tls.Config)(nil)
	if a.Scheme == "consuls" {
		scheme, port = "https", "8501"
		if trust, err = secure.Config(a); err != nil {
			return nil, err
		}
	}
	hosts := a.HostPorts("127.0.0.1", port)
	switch {
	case len(hosts) > 1:
		return nil, fmt.Errorf("%s:// takes one host: an agent, which knows the servers", a.Scheme)
	case a.Path != "":
		return nil, errors.New("consul has no databases: leave out what follows the host")
	case a.User != "":
		return nil, fmt.Errorf("consul has no users: a token goes where a password does, as in %s://:token@host", a.Scheme)
	}
	o.URL, o.Token = (&url.URL{Scheme: scheme, Host: hosts[0]}).String(), a.Password // String escapes a zone
	o.Client = &http.Client{Transport: transport(timeout, trust)}
	return o, a.Done()
}

// transport keeps its connections, since a lock is many small requests.
func transport(timeout time.Duration, trust *tls.Config) *http.Transport {
	dialer := &net.Dialer{Timeout: timeout, KeepAlive: keepAlive}
	return &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: trust, TLSHandshakeTimeout: timeout, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: connsOf(usualLimit), MaxConnsPerHost: connsOf(usualLimit), IdleConnTimeout: idleAfter,
		DisableCompression: true,
	}
}

func newDriver(o *Options) (*Driver, error) {
	base := o.URL
	if base == "" {
		base = defaultURL
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("the agent's URL must be of the form http://host:port or https://host:port")
	}
	d := &Driver{
		agent: &agent{
			client: o.Client, base: strings.TrimSuffix(base, "/"), host: u.Host,
			token: o.Token, dc: o.Datacenter, space: o.Namespace,
		},
		prefix:  o.Prefix,
		queries: queriesOf(usualLimit),
	}
	if d.prefix == "" {
		d.prefix = DefaultPrefix
	}
	if o.Bare {
		d.prefix = ""
	}
	if len(d.prefix) > maxPrefix || strings.HasPrefix(d.prefix, "/") {
		return nil, fmt.Errorf("the prefix must not begin with a slash, nor be longer than %d bytes", maxPrefix)
	}
	if strings.ContainsAny(o.Token, "\r\n") {
		return nil, errors.New("the token has a line break")
	}
	if d.agent.client == nil {
		d.agent.client, d.agent.owned = &http.Client{Transport: transport(defaultDialTimeout, nil)}, true
	}
	d.life = work.Begin()
	d.ctx = d.life.Context()
	d.agent.ctx = d.ctx
	d.sessions = &sessions{agent: d.agent, life: d.life, mu: &d.mu, idle: map[kind][]*session{}}
	d.claims = &claims{sessions: d.sessions, mu: &d.mu, known: map[string]*localClaim{}}
	d.promised.Life, d.promised.Ask = d.life, d.promises
	return d, nil
}
