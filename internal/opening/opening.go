//go:build unix

// Package opening is what programs share that open the store of a URL: its secrets, its sessions, and the meaning of its
// errors.
package opening

import (
	"fmt"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/phrase"
)

// Hide keeps the passwords of a store's URL, and of the URLs in it, out of all later messages. It reports whether there is a
// password.
func Hide(a *driver.Address, url string) bool {
	phrase.KeepSecret(a.Password, rawPassword(url))
	found := a.Password != ""
	for _, parameter := range []string{"sentinel_password", "password"} {
		secret := a.Param(parameter, "")
		phrase.KeepSecret(secret)
		found = found || secret != ""
	}
	for entry := range strings.SplitSeq(a.Param("stores", "")+";"+a.Param("previous", ""), ";") {
		_, within, _ := strings.Cut(entry, "=")
		if store, err := driver.ParseAddress(within); err == nil {
			found = Hide(store, within) || found
		}
	}
	return found
}

// rawPassword returns the password as the URL has it, perhaps escaped.
func rawPassword(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	authority, _, _ := strings.Cut(rest, "/")
	i := strings.LastIndexByte(authority, '@')
	if i < 0 {
		return ""
	}
	_, password, _ := strings.Cut(authority[:i], ":")
	return password
}

// sessionDefault is the length of a session of ZooKeeper without the parameter.
const sessionDefault = 10 * time.Second

// WithSession returns the URL with a session as short as the lease: in ZooKeeper a claim lasts as long as its client's
// session, whatever its lease, and this client has one claim.
func WithSession(a *driver.Address, url string, ttl time.Duration) string {
	if a.Scheme != "zk" && a.Scheme != "zks" || a.Param("session", "") != "" || ttl == 0 || ttl >= sessionDefault {
		return url
	}
	return With(url, "session="+ttl.String())
}

// With returns a URL with one more parameter.
func With(url, parameter string) string {
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	return url + separator + parameter
}

// Failed returns the error of a store that could not be opened. A lasting refusal is a mistake of the URL.
func Failed(a *driver.Address, err error) error {
	if driver.OutcomeOf(err) == driver.OutcomeRefused && !driver.IsUnreachable(err) && !exit.NoRoom(err) {
		return exit.Usage("%s: %w", a, err)
	}
	return exit.With(exit.Store, fmt.Errorf("%s: %w", a, err))
}
