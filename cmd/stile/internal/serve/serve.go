// Package serve is stile serve: the lock service.
//
// Of the other packages of the command it may import speech and store.
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
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/internal/ending"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/server"
	"github.com/stilelock/stile/store/remote"
)

const serveLong = `Serves the locks of a store over HTTP. Programs that lack the store's client
library, or a route to the store, take the same locks by its URL:

  stile run --url stile://127.0.0.1:7845 NAME -- CMD

It listens on a loopback address only. Without --tokens it answers every program
of this machine. With it, clients need a token that stile serve token makes.

The service keeps no state of a lock. So you may restart it while locks are held,
and several services may serve one store. A signal ends it: it answers the requests
under way, and clients that wait ask again.`

// defaultListen has the port that clients use for a URL without one.
const defaultListen = "127.0.0.1:" + remote.DefaultPort

const (
	headWithin = 10 * time.Second // for reading a request's head
	idleWithin = 3 * time.Minute  // for a connection without a request; clients close one sooner
	maxHead    = 16 << 10         // the largest head of a request, in bytes
	endWithin  = 10 * time.Second // for unfinished requests when the service ends
)

// New returns the command.
func New(s *store.Store) *cobra.Command {
	var listen, file string
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve the locks of a store over HTTP", Long: serveLong,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usage("stile serve takes no arguments, only --url, --listen and --tokens; or token")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			ending.OutliveReaders()
			ctx, stop := ending.Until(cmd.Context(), ending.Listen(ending.Signals))
			defer stop()
			if err := onLoopback(listen); err != nil {
				return err
			}
			o, err := options(file)
			if err != nil {
				return err
			}
			return serve(ctx, cmd.OutOrStdout(), s, listen, o)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", defaultListen,
		"the loopback `address` to listen on; port 0 takes a free one (default: "+defaultListen+")")
	cmd.Flags().Lookup("listen").DefValue = "" // its text has the default
	cmd.Flags().StringVar(&file, "tokens", "",
		"the `file` that stile serve token wrote; it is read again when it changes (default: no credentials are needed)")
	cmd.AddCommand(newToken())
	return cmd
}

// options returns the options of a service whose clients need a token of a file; nil without a file.
func options(file string) (*server.Options, error) {
	if file == "" {
		return nil, nil
	}
	t := &tokens{path: file, warn: func(err error) { speech.Warn("warning: nobody is served: %v", err) }}
	if _, _, err := readGrants(file); err != nil {
		return nil, exit.Usage("--tokens: %w", err)
	}
	return &server.Options{Authenticate: t.authenticate}, nil
}

// onLoopback refuses an address that other machines may reach, or that names no interface.
func onLoopback(listen string) error {
	host, port, err := net.SplitHostPort(listen)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		return exit.Usage("--listen %s: it is an address with a port up to 65535, such as %s", listen, defaultListen)
	}
	if addr, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !addr.IsLoopback()) {
		return exit.Usage("--listen %s: it is not a loopback address, such as %s: other machines are not served",
			listen, defaultListen)
	}
	return nil
}

// whom says whom the service answers.
func whom(o *server.Options) string {
	if o == nil {
		return "every program of this machine is answered, without credentials"
	}
	return "clients need a token"
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

// serve serves a store at an address until ctx ends.
func serve(ctx context.Context, out io.Writer, s *store.Store, listen string, o *server.Options) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return exit.With(exit.System, err)
	}
	defer l.Close()
	d, name, err := s.Driver(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	answers, err := server.New(d, o)
	if err != nil {
		return exit.Usage("%s: %w", name, err)
	}
	web := &http.Server{
		Handler: answers, ReadHeaderTimeout: headWithin, IdleTimeout: idleWithin, MaxHeaderBytes: maxHead,
		ErrorLog: log.New(panics{os.Stderr}, "stile: ", 0),
	}
	web.RegisterOnShutdown(answers.EndWaits)
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	// The service goes on even if nobody reads this line.
	_, _ = fmt.Fprintf(out, "serving the locks of %s at stile://%s\n%s\n", name, l.Addr(), whom(o))
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
