package memcached

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
)

// keys returns the server's keys that are wanted, in no order.
//
// The server scans its hash table. Older servers cannot, and scan their lists of recently used items, where an item that is
// used meanwhile may be missed.
func (l *link) keys(ctx context.Context, wanted func(key string) bool) ([]string, error) {
	way := "hash"
	for {
		keys, refused, err := l.dump(ctx, way, wanted)
		switch {
		case err != nil || refused == "":
			return keys, err
		case refused == "BADCLASS":
			way = "all"
			continue
		}
		timer := time.NewTimer(redialLeast) // another client lists them now, and the server does that for only one at a time
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, driver.Ended(ctx, true)
		case <-l.ctx.Done():
			return nil, driver.ErrClosed
		}
	}
}

// dump makes the server list its keys in one way, unless the server does not know this way or is busy.
func (l *link) dump(ctx context.Context, way string, wanted func(string) bool) (keys []string, refused string, err error) {
	if _, err := l.get(ctx); err != nil {
		return nil, "", err // closed or unreachable, with the usual error
	}
	sock, err := l.dialer().DialContext(ctx, "tcp", l.addr)
	if err != nil {
		return nil, "", l.unlisted(ctx, err)
	}
	defer sock.Close()
	for _, until := range []context.Context{ctx, l.ctx} {
		defer context.AfterFunc(until, func() { sock.Close() })()
	}
	request, secret := []byte("lru_crawler metadump "+way+"\r\n"), l.secret()
	first := request
	if secret != nil {
		first = secret // the server does not accept the request together with it
	}
	if _, err := sock.Write(first); err != nil {
		return nil, "", l.unlisted(ctx, err)
	}
	return l.listed(ctx, sock, request, wanted)
}

// listed reads the server's answer to a request that may be sent only after the password was accepted.
func (l *link) listed(
	ctx context.Context, sock io.ReadWriter, request []byte, wanted func(string) bool,
) (keys []string, refused string, err error) {
	lines := bufio.NewScanner(sock)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "END":
			return keys, "", nil
		case "BUSY", "BADCLASS":
			return nil, word, nil
		case "STORED": // the password was accepted
			if _, err := sock.Write(request); err != nil {
				return nil, "", l.unlisted(ctx, err)
			}
			continue
		case "ERROR", "CLIENT_ERROR", "SERVER_ERROR":
			return nil, "", fmt.Errorf("%w: memcached lists names only if its crawler is on and may list keys (%s)",
				driver.ErrUnsupported, strings.TrimSpace(word+" "+rest))
		}
		escaped, ok := strings.CutPrefix(word, "key=")
		key, err := url.PathUnescape(escaped)
		if ok && err == nil && wanted(key) {
			keys = append(keys, key)
		}
		driver.Heard(ctx, 1)
	}
	err = lines.Err()
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return nil, "", l.unlisted(ctx, err)
}

// unlisted returns the error of a list that broke off.
func (l *link) unlisted(ctx context.Context, err error) error {
	switch {
	case l.ctx.Err() != nil:
		return driver.ErrClosed
	case ctx.Err() != nil:
		return driver.Ended(ctx, true)
	}
	return driver.Unreachable(fmt.Errorf("memcached at %s does not list its keys: %w", l.addr, err))
}
