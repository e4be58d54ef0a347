// Package serve is stile serve: the lock service.
//
// Of the other packages of the command it may import flags, speech and store.
package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/stilelock/stile/cmd/stile/internal/flags"
	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/ending"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/server"
)

const serveLong = `Serves the locks of a store over HTTP. Programs that lack the store's client
library, or a route to the store, take the same locks by its URL:

  stile run --url stile://127.0.0.1:7845 NAME -- CMD

Without --tokens it answers every program of this machine, and no other. With it,
clients need a token that stile serve token makes. With TLS too, it may listen on an
address that other machines reach. A browser shows who holds and who waits there.

The service keeps no state of a lock. So you may restart it while locks are held,
and several services may serve one store, but not over ZooKeeper. A signal ends it:
it answers the requests under way, and clients that wait ask again.`

const (
	headWithin = 10 * time.Second // for reading a request's head
	idleWithin = 3 * time.Minute  // for a connection without a request; clients close one sooner
	maxHead    = 16 << 10         // the largest head of a request, in bytes
	ownWithin  = 30 * time.Second // for a client to accept what net/http sends by itself; the service limits its own answers
	endWithin  = 10 * time.Second // for unfinished requests when the service ends
)

// New returns the command.
func New(s *store.Store) *cobra.Command {
	f, o, w := &front{}, &server.Options{}, &auditFlags{}
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve the locks of a store over HTTP", Long: serveLong,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usage("stile serve takes no arguments, only flags; or token")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			ending.OutliveReaders()
			ctx, stop := ending.Until(cmd.Context(), ending.Listen(ending.Signals))
			defer stop()
			if err := f.check(); err != nil {
				return err
			}
			if err := checkBounds(cmd.Flags(), o, f); err != nil {
				return err
			}
			if err := complete(o, f); err != nil {
				return err
			}
			closes, err := w.audit(o)
			if err != nil {
				return err
			}
			defer closes()
			web, err := newWeb(f)
			if err != nil {
				return err
			}
			return serve(ctx, cmd.OutOrStdout(), s, f, o, web)
		},
	}
	f.flags(cmd.Flags())
	cmd.Flags().Var((*flags.Duration)(&o.MaxTTL), "max-ttl",
		"the longest lease, from 10s: how long a lock outlives a client that dies (default: the store's, at most 24h)")
	cmd.Flags().IntVar(&o.MaxRate, "max-rate", 0,
		"the most `requests` per second for new claims and to look at claims, of which one principal has three quarters "+
			"(default: 10000 with --tokens)")
	cmd.Flags().IntVar(&o.MaxClaims, "max-claims", 0,
		"the most `claims` that one principal may have, which hold or wait; each service counts those that it enters or renews "+
			"(default: 30000 with --tokens)")
	w.flags(cmd.Flags())
	cmd.AddCommand(newToken())
	return cmd
}

// checkBounds refuses bounds that a service cannot have, by their flags.
func checkBounds(given *pflag.FlagSet, o *server.Options, f *front) error {
	const least, most = 10 * time.Second, driver.MaxTTL // see server.Options
	switch {
	case given.Changed("max-ttl") && (o.MaxTTL < least || o.MaxTTL > most):
		return exit.Usage("--max-ttl %v: it must be from %v to %v", o.MaxTTL, least, most)
	case given.Changed("max-rate") && o.MaxRate < 2:
		return exit.Usage("--max-rate %d: it must be at least 2", o.MaxRate)
	case given.Changed("max-claims") && o.MaxClaims < 1:
		return exit.Usage("--max-claims %d: it must be at least 1", o.MaxClaims)
	case o.MaxClaims != 0 && f.tokens == "":
		return exit.Usage("--max-claims needs --tokens: it is for each principal")
	}
	return nil
}

// complete adds to the options of the service what its front says.
func complete(o *server.Options, f *front) (err error) {
	if f.page != pageOn && f.page != pageOff {
		return exit.Usage("--page %.40s: it is %s or %s", f.page, pageOn, pageOff)
	}
	o.Page, o.Hosts, o.Consul = f.page == pageOn, f.hosts, f.consul
	if o.Class, err = classes(f.classes); err != nil {
		return exit.Usage("--metrics-class: %w", err)
	}
	if f.consul && f.keys == "" {
		return exit.Usage("--consul needs --keys FILE: the sessions of Consul's clients outlast this service")
	}
	if f.keys != "" {
		if o.Keys, err = sharedKeys(f.keys); err != nil {
			return exit.Usage("--keys: %w", err)
		}
	}
	if f.tokens == "" {
		return nil
	}
	t := &tokens{path: f.tokens, warn: func(err error) { speech.Warn("warning: nobody is served: %v", err) }}
	if _, _, err := readGrants(f.tokens); err != nil {
		return exit.Usage("--tokens: %w", err)
	}
	o.Authenticate = t.authenticate
	return nil
}

// newWeb returns the service's HTTP server, without its handler. Each of its connections has one request at a time, so what
// bounds connections bounds requests. HTTP/2 would be no cheaper, and would need bounds of its own.
func newWeb(f *front) (*http.Server, error) {
	web := &http.Server{
		ReadHeaderTimeout: headWithin, WriteTimeout: ownWithin, IdleTimeout: idleWithin, MaxHeaderBytes: maxHead, Protocols: &http.Protocols{},
		ErrorLog: log.New(panics{os.Stderr}, "stile: ", 0),
	}
	web.Protocols.SetHTTP1(true)
	if f.cert == "" {
		return web, nil
	}
	c, err := openCertificate(f.cert, f.key, func(err error) {
		speech.Warn("warning: the certificate before stays in use: %v", err)
	})
	if err != nil {
		return nil, exit.Usage("--tls-cert and --tls-key: %w", err)
	}
	web.TLSConfig = c.config()
	return web, nil
}

// panics passes on net/http's messages about handlers that panicked, which are defects of the service. All its other
// messages are about connections that clients broke.
type panics struct{ to io.Writer }

func (p panics) Write(line []byte) (int, error) {
	if !bytes.Contains(line, []byte("panic serving")) {
		return len(line), nil
	}
	return p.to.Write(line)
}

// A role says whether the service serves its store.
type role struct {
	out              io.Writer
	store, url, whom string
}

// standby says that the service stands by, or with nil that it serves. The service goes on even if nobody reads it.
func (r *role) standby(because error) {
	if because != nil {
		_, _ = fmt.Fprintf(r.out, "standing by for the locks of %s at %s: %v\n", r.store, r.url, because)
		return
	}
	_, _ = fmt.Fprintf(r.out, "serving the locks of %s at %s\n%s\n", r.store, r.url, r.whom)
}

// serve serves a store until ctx ends.
func serve(ctx context.Context, out io.Writer, s *store.Store, f *front, o *server.Options, web *http.Server) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if errors.Is(err, unix.EADDRINUSE) {
		err = fmt.Errorf("--listen %s: another program listens there; give another port, or 0 for a free one", f.listen)
	}
	if err != nil {
		return exit.With(exit.System, err)
	}
	defer l.Close()
	d, name, err := s.Driver(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	conns := &bounded{Listener: l, most: mostConns(), full: func() {
		speech.Warn("warning: all connections are in use, and more are turned away")
	}}
	o.MaxWaits = mostWaits(conns.most)
	says := &role{out: out, store: name, url: f.url(l.Addr()), whom: f.whom(l.Addr())}
	o.Standby = says.standby
	answers, err := server.New(d, o)
	if err != nil {
		return exit.Usage("%s: %w", name, err)
	}
	if !d.Traits().InSession { // otherwise another service may serve the store
		says.standby(nil)
	}
	web.Handler, web.ConnState = answers, conns.state
	web.RegisterOnShutdown(answers.EndWaits)
	return run(ctx, web, conns)
}

// run answers the requests of a listener until ctx ends, and then those that are under way.
func run(ctx context.Context, web *http.Server, l net.Listener) error {
	served := make(chan error, 1)
	go func() {
		if web.TLSConfig != nil {
			served <- web.ServeTLS(l, "", "")
		} else {
			served <- web.Serve(l)
		}
	}()
	select {
	case err := <-served:
		return exit.With(exit.System, err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	if err := web.Shutdown(end); errors.Is(err, context.DeadlineExceeded) {
		return web.Close() // the store does not answer, and the clients turn to another service
	} else if err != nil {
		return exit.With(exit.System, err)
	}
	return nil
}
