// Package remote is the driver for stores behind the lock service: see package server. A program needs no client library of
// the store, and no connection to it.
//
// Importing it registers the schemes stile, plain HTTP, and stiles, TLS:
//
//	stile://[:token@]host[:7845][,host2]
//
// Several hosts are replicas of one service, over one store, which must keep an id: see [driver.Identifier]. Open fails if
// two hosts give two ids, or one gives none. Each request reaches only the store whose id the client knows. If the hosts come
// to serve two stores, the client takes no locks until they serve one again; it still renews the locks that it has.
//
// If a request was not sent to one host, or the host has too much to do, the client tries the next. If a host does not answer in time or does not reach its
// store, the next request goes to another host.
// While a request to take or release locks is under way, further calls wait for it, 5 ms at most, and then share the next.
// A service with credentials needs a token, in the URL as above or in a file that the parameter token_file names. Over plain
// HTTP the client sends the token to loopback addresses only.
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
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/secure"
	"github.com/stilelock/stile/internal/work"
)

// DefaultPort is the service's port if the URL names none.
const DefaultPort = "7845"

const (
	defaultDialTimeout = 5 * time.Second
	idleConns          = 64               // idle connections kept per host
	idleFor            = 90 * time.Second // the service must keep them longer
	mostTags           = 64               // tags of traits that a client keeps
	mostAsks           = 8                // requests for the traits of one tag, in a row
	askAgain           = 10 * time.Second // after requests that did not bring the traits
)

func init() {
	driver.Register("stile", Open)
	driver.Register("stiles", Open)
}

// Open connects to the lock service at an address. The driver has the optional interfaces that the service's store has.
func Open(ctx context.Context, a *driver.Address) (driver.Driver, error) {
	timeout, err := a.Duration("dial_timeout", defaultDialTimeout)
	if err != nil {
		return nil, err
	}
	scheme, config := "http", (*tls.Config)(nil)
	if a.Scheme == "stiles" {
		scheme = "https"
		if config, err = secure.Config(a); err != nil {
			return nil, driver.Refused(err)
		}
	}
	if a.User != "" || a.Path != "" {
		return nil, driver.Refused(errors.New("the URL of a lock service has no user and no path: it is stile://host:port, or " +
			"stile://:token@host:port"))
	}
	token, err := credential(a)
	if err != nil {
		return nil, err
	}
	if err := a.Done(); err != nil {
		return nil, err
	}
	c := &client{token: token, timeout: timeout, silence: 3 * api.Alive, mostList: api.MaxList, life: work.Begin(), tags: map[string]bool{},
		stores: storeCheck{again: missingAgain},
		transport: &http.Transport{
			DialContext:     (&net.Dialer{Timeout: timeout}).DialContext,
			TLSClientConfig: config, TLSHandshakeTimeout: timeout,
			DisableCompression: true, MaxIdleConnsPerHost: idleConns, IdleConnTimeout: idleFor,
		}}
	c.alone = c.transport.Clone()
	c.alone.DisableKeepAlives = true
	c.alerts = alerts{c: c, kick: make(chan struct{}, 1), claims: map[heldBy]*held{}, subs: map[*subscription]bool{}}
	for _, host := range a.HostPorts("127.0.0.1", DefaultPort) {
		if begin := scheme + "://" + host; !slices.Contains(c.hosts, begin) {
			c.hosts, c.gatherers = append(c.hosts, begin), append(c.gatherers, newGatherer(c, begin))
		}
	}
	t, err := c.connect(ctx)
	if err == nil {
		err = c.openStore(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	c.alerts.able = t.Alerts
	return c.able(t), nil
}

// credential returns the token for a service; "" means none.
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
		host, _, _ := net.SplitHostPort(hostPort) // no error is possible: see HostPorts
		if addr, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !addr.Unmap().IsLoopback()) {
			return "", driver.Refused(errors.New("stile:// would send the token as plain text to another machine: use stiles://"))
		}
	}
	return token, nil
}

// connect asks for the traits. A host that is silent for timeout counts as frozen. If it is, or breaks its connections, as a
// proxy without a service does, connect asks the next one.
func (c *client) connect(ctx context.Context) (t *api.TraitsAnswer, err error) {
	for range c.hosts {
		t = &api.TraitsAnswer{}
		bounded, cancel := context.WithTimeout(ctx, c.timeout)
		err = c.call(bounded, api.Traits, api.Nothing{}, t)
		cut := bounded.Err() != nil && ctx.Err() == nil
		cancel()
		if cut && err != nil {
			err = driver.Unreachable(fmt.Errorf("the lock service did not answer within %v", c.timeout))
		}
		if err == nil || ctx.Err() != nil || !driver.IsUnreachable(err) {
			return t, err
		}
	}
	return nil, err
}

// A client is the driver without optional interfaces.
type client struct {
	token     string      // "" for none
	hosts     []string    // the beginnings of URLs
	gatherers []*gatherer // of the hosts
	transport *http.Transport
	alone     *http.Transport // for requests with a connection of their own
	timeout   time.Duration   // for a host's first answer
	silence   time.Duration   // after this time without an event, a service counts as dead
	mostList  int64           // bytes of a list, at most
	life      *work.Life
	alerts    alerts
	replicas  replicas
	stores    storeCheck

	mu     sync.Mutex // guards the fields below
	host   int        // the index of the host to ask first
	traits driver.Traits
	tags   map[string]bool // of the known traits
	asking bool            // a request for new traits is under way
}

// Traits is [driver.Driver.Traits]. Each answer of the service shows a change of the traits by their tag.
func (c *client) Traits() driver.Traits {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.traits
}

// learn adds traits from the service, with their tag. Replicas may differ, for example in what they know of the store, and
// each may get the next request. So the client promises only what all known traits promise.
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

// heard takes the tag of an answer, and asks for the traits if the tag is new. The answer with the traits carries their tag.
// The client cannot compute a tag, since the traits may have fields that it does not know.
func (c *client) heard(tag string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if tag == "" || c.tags[tag] || c.asking || len(c.tags) == 0 {
		return
	}
	c.asking = c.life.Go(func() {
		ctx, cancel := context.WithTimeout(c.life.Context(), defaultDialTimeout)
		defer cancel()
		for n := 0; !c.knows(tag) && n < mostAsks; n++ { // another replica may answer, with another tag
			_ = c.call(ctx, api.Traits, api.Nothing{}, &api.TraitsAnswer{}) // if this fails, a later answer has the tag again
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
