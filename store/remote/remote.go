// Package remote is the driver of stores behind the lock service: see package server. A program that uses it needs no
// client library of the store, and no connection to it.
//
// Importing it registers the schemes stile, plain HTTP, and stiles, TLS:
//
//	stile://[:token@]host[:7845][,host2]
//
// Several hosts are replicas of one service, over one store. Nothing checks that: over two stores, a lock has two holders. A
// request that was not sent to one of them is sent to the next. After a host that does not answer in time, or that does not
// reach its store, the next request goes to another one.
// A service with credentials wants a token, in the URL as above or in a file that the parameter token_file names. Over plain
// HTTP it is sent to loopback addresses only.
// Parameters: dial_timeout, token_file; with stiles also tls_ca, tls_cert, tls_key and tls_server_name.
package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/secure"
	"github.com/stilelock/stile/internal/work"
)

// DefaultPort is the service's port in a URL that names none.
const DefaultPort = "7845"

const (
	defaultDialTimeout = 5 * time.Second
	idleConns          = 64               // idle connections kept to each host
	idleFor            = 90 * time.Second // the service must keep them longer
	mostTags           = 64               // tags that a client keeps
	mostAsks           = 8                // requests for the traits of one tag, in a row
	askAgain           = 10 * time.Second // if the traits have not come
)

func init() {
	driver.Register("stile", Open)
	driver.Register("stiles", Open)
}

// Open connects to the lock service at an address. The driver's type has the optional interfaces of package driver that the
// service's store has.
func Open(ctx context.Context, a *driver.Address) (driver.Driver, error) {
	timeout, err := a.Duration("dial_timeout", defaultDialTimeout)
	if err != nil {
		return nil, err
	}
	scheme, config := "http", (*tls.Config)(nil)
	if a.Scheme == "stiles" {
		scheme = "https"
		if config, err = secure.Config(a); err != nil {
			return nil, err
		}
	}
	if a.User != "" || a.Path != "" {
		return nil, driver.Refused(errors.New("the URL of a lock service has no user and no path: it is stile://host:port, or stile://:token@host:port"))
	}
	token, err := credential(a)
	if err != nil {
		return nil, err
	}
	if err := a.Done(); err != nil {
		return nil, err
	}
	c := &client{token: token, silence: 3 * api.Alive, mostList: api.MaxList, life: work.Begin(), tags: map[string]bool{}, transport: &http.Transport{
		DialContext:     (&net.Dialer{Timeout: timeout}).DialContext,
		TLSClientConfig: config, TLSHandshakeTimeout: timeout,
		DisableCompression: true, MaxIdleConnsPerHost: idleConns, IdleConnTimeout: idleFor,
	}}
	c.alerts = alerts{c: c, kick: make(chan struct{}, 1), claims: map[heldBy]*held{}, subs: map[*subscription]bool{}}
	for _, host := range a.HostPorts("127.0.0.1", DefaultPort) {
		c.hosts = append(c.hosts, scheme+"://"+host)
	}
	t, err := c.connect(ctx, timeout)
	if err != nil {
		c.Close()
		return nil, err
	}
	c.alerts.able = t.Alerts
	return c.able(t), nil
}

// credential returns the token for a service; "" if there is none.
func credential(a *driver.Address) (string, error) {
	token, file := a.Password, a.Param("token_file", "")
	if file != "" {
		if token != "" {
			return "", driver.Refused(errors.New("the token is in the URL or in token_file, not in both"))
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return "", driver.Refused(fmt.Errorf("parameter token_file: %w", err))
		}
		if token = strings.TrimSpace(string(text)); token == "" {
			return "", driver.Refused(fmt.Errorf("parameter token_file: %s is empty", file))
		}
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", driver.Refused(errors.New("a token has only letters, digits and signs"))
	}
	if token == "" || a.Scheme == "stiles" {
		return token, nil
	}
	for _, hostPort := range a.HostPorts("127.0.0.1", DefaultPort) {
		host, _, _ := net.SplitHostPort(hostPort) // without an error: see HostPorts
		if addr, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !addr.Unmap().IsLoopback()) {
			return "", driver.Refused(errors.New("stile:// would send the token as plain text to another machine: use stiles://"))
		}
	}
	return token, nil
}

// connect asks for the traits. A host that is silent for as long as connecting may take counts as frozen, and the next one
// is asked.
func (c *client) connect(ctx context.Context, timeout time.Duration) (t *api.TraitsAnswer, err error) {
	for range c.hosts {
		t = &api.TraitsAnswer{}
		bounded, cancel := context.WithTimeout(ctx, timeout)
		err = c.call(bounded, api.Traits, api.Nothing{}, t)
		cut := bounded.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !cut {
			return t, err
		}
		err = driver.Unreachable(fmt.Errorf("the lock service did not answer within %v", timeout))
	}
	return nil, err
}

// A client is the driver without optional interfaces.
type client struct {
	token     string   // "" for none
	hosts     []string // as beginnings of URLs
	transport *http.Transport
	silence   time.Duration // silence between events after which their service counts as dead
	mostList  int64         // the most bytes of a list
	life      *work.Life
	alerts    alerts
	replicas  replicas

	mu     sync.Mutex // guards what follows
	host   int        // the index of the host that is asked first
	traits driver.Traits
	tags   map[string]bool // of the traits
	asking bool            // for new traits
}

// Traits is [driver.Driver.Traits]. Each answer of the service says whether the traits have changed.
func (c *client) Traits() driver.Traits {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.traits
}

// learn takes traits from the service, and their tag. Replicas may differ, for example in what they have found out about
// the store, and any of them may get a request. So the client only promises what all known traits promise.
func (c *client) learn(a *api.TraitsAnswer, tag string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := a.Traits.Driver()
	if len(c.tags) > 0 {
		t = driver.Weakest(t, c.traits)
	}
	if len(c.tags) == mostTags {
		clear(c.tags)
	}
	c.traits, c.tags[tag] = t, true
}

// heard takes the tag of an answer, and asks for the traits if the tag is new. The answer with the traits has their tag:
// this client could not compute it, since the traits may have fields that it does not know.
func (c *client) heard(tag string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if tag == "" || c.tags[tag] || c.asking || len(c.tags) == 0 {
		return
	}
	c.asking = c.life.Go(func() {
		ctx, cancel := context.WithTimeout(c.life.Context(), defaultDialTimeout)
		defer cancel()
		for n := 0; !c.knows(tag) && n < mostAsks; n++ { // another replica may have answered
			_ = c.call(ctx, api.Traits, api.Nothing{}, &api.TraitsAnswer{}) // if it fails, a later answer has the tag again
		}
		if !c.knows(tag) {
			select {
			case <-time.After(askAgain):
			case <-c.life.Context().Done():
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asking = false
	})
}

func (c *client) knows(tag string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tags[tag]
}

// Close is [driver.Driver.Close].
func (c *client) Close() error {
	c.life.End()
	c.life.Wait()
	c.transport.CloseIdleConnections()
	return nil
}
