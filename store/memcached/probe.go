package memcached

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/stilelock/stile/driver"
)

// facts is the server's own description.
type facts struct {
	version string
	pid     string
	started int64 // when its process started, by its clock
	time    int64 // the time of its clock
	largest int64 // largest value in bytes; 0 if unknown
	evicts  bool  // when memory is full, it drops the items that were unused for longest, instead of refusing
}

// oldest is the first version with the present meta commands.
var oldest = [3]int{1, 6, 10}

// greet authenticates, and reads the server's facts. A server that cannot keep locks is refused.
func (l *link) greet(ctx context.Context, c *conn) (*facts, error) {
	if err := l.login(ctx, c); err != nil {
		return nil, err
	}
	r, err := c.do(ctx, []byte("version\r\nstats\r\nstats settings\r\n"), 3)
	if err != nil {
		return nil, err
	}
	for i := range r {
		if err := r[i].failure(); err != nil {
			return nil, err
		}
	}
	if r[0].status != "VERSION" || r[1].stats == nil || r[2].stats == nil {
		return nil, driver.Refused(errors.New("the server does not answer as memcached does"))
	}
	f := &facts{version: strings.TrimSpace(r[0].text), pid: r[1].stats["pid"], evicts: r[2].stats["evictions"] != "off"}
	if older(f.version) {
		return nil, driver.Refused(fmt.Errorf("memcached %s has no deletion by version: version %d.%d.%d is the oldest "+
			"that can keep locks", f.version, oldest[0], oldest[1], oldest[2]))
	}
	if r[2].stats["cas_enabled"] != "yes" {
		return nil, driver.Refused(
			errors.New("memcached runs without versions of its values (option -C), so it cannot keep locks"))
	}
	uptime, err1 := strconv.ParseInt(r[1].stats["uptime"], 10, 64)
	f.time, err = r[1].time()
	if err = cmp.Or(err, err1); err != nil {
		return nil, driver.Refused(errNoTime)
	}
	f.started = f.time - uptime
	f.largest, _ = strconv.ParseInt(r[2].stats["item_size_max"], 10, 64)
	return f, nil
}

var errNoTime = errors.New("memcached does not tell what time it is")

// time returns the server's time at its statistics.
func (r *reply) time() (int64, error) {
	if r.stats == nil {
		return 0, r.unexpected()
	}
	now, err := strconv.ParseInt(r.stats["time"], 10, 64)
	if err != nil {
		return 0, errNoTime
	}
	return now, nil
}

// secret returns user and password in the form for a server with a file of users (option -Y); nil if there is none.
func (l *link) secret() []byte {
	if l.user == "" && l.password == "" {
		return nil
	}
	both := l.user + " " + l.password
	return fmt.Appendf(nil, "set stile 0 0 %d\r\n%s\r\n", len(both), both)
}

// login sends user and password, if there are any.
func (l *link) login(ctx context.Context, c *conn) error {
	secret := l.secret()
	if secret == nil {
		return nil
	}
	_, err := c.do(ctx, secret, 1)
	if _, refused := errors.AsType[*refusal](err); refused {
		who := fmt.Sprintf("user %q with this password", l.user)
		if l.password == "" { // the user may be a password
			who = "what stands before the @ in the URL as a user without a password: both go there, as in memcached://user:password@host"
		}
		err = driver.Refused(errors.New("memcached does not accept " + who))
	}
	return err
}

// older reports whether a version is too old. An unreadable version counts as new.
func older(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	for i, least := range oldest {
		if i >= len(parts) {
			return false
		}
		digits := strings.IndexFunc(parts[i]+" ", func(r rune) bool { return r < '0' || r > '9' })
		n, err := strconv.Atoi(parts[i][:digits])
		if err != nil || n > least {
			return false
		}
		if n < least {
			return true
		}
	}
	return false
}
