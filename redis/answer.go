package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// An answer is what a script returned after key and id, or one text that begins with the id.
type answer []rueidis.RedisMessage

var errOther = errors.New("redis answered another request than this one: the connection is not to be trusted")

// read takes an answer apart and makes sure that it is the one to this request.
func (d *Driver) read(ctx context.Context, r rueidis.RedisResult, s *script, q request) (answer, error) {
	if r.NonRedisError() != nil {
		d.down.Store(true)
	}
	m, err := r.ToMessage()
	if err = d.explain(ctx, err); errors.Is(err, driver.ErrForeign) {
		keys := s.keys(q.key)
		if wrongType(r) { // a script looks at the first key's type itself
			return nil, fmt.Errorf("%w: key %q is of another type than stile's", driver.ErrForeign, keys[len(keys)-1])
		}
		return nil, foreignKey(q.key, "string")
	}
	if err != nil {
		return nil, err
	}
	if text, err := m.ToString(); err == nil && q.id != "" && strings.HasPrefix(text+"\n", q.id+"\n") {
		return answer{m}, nil
	}
	list, _ := m.ToArray()
	a := answer(list)
	if len(a) < 3 || a.text(0) != q.key || a.text(1) != q.id {
		return nil, errOther
	}
	rest := a[3:]
	switch status := a.text(2); status {
	case "ok":
		return rest, nil
	case "gone":
		return nil, driver.ErrGone
	case "foreign":
		return nil, foreignKey(q.key, rest.text(0))
	case "capacity":
		return nil, &driver.CapacityError{Have: rest.number(0)}
	default:
		return nil, fmt.Errorf("redis answered with unknown status %q", status)
	}
}

// quick returns the ticket of a claim that holds by a script's quick part, which says no more.
func (a answer) quick() (ticket int64, ok bool) {
	if len(a) != 1 {
		return 0, false
	}
	_, after, ok := strings.Cut(a.text(0), "\n")
	if !ok {
		return 0, false
	}
	ticket, err := strconv.ParseInt(after, 10, 64)
	return ticket, err == nil && ticket > waitingTicket
}

func wrongType(r rueidis.RedisResult) bool {
	refusal, ok := rueidis.IsRedisErr(r.Error())
	return ok && strings.HasPrefix(refusal.Error(), "WRONGTYPE")
}

func foreignKey(key, kind string) error {
	return fmt.Errorf("%w: key %q is a %s", driver.ErrForeign, key, kind)
}

func (a answer) text(i int) string {
	if i >= len(a) {
		return ""
	}
	s, _ := a[i].ToString()
	return s
}

func (a answer) number(i int) int64 {
	if i >= len(a) {
		return 0
	}
	n, _ := a[i].AsInt64()
	return n
}

func (a answer) span(i int) time.Duration { return time.Duration(a.number(i)) * time.Microsecond }

// standings takes the claims apart that begin at i.
func (a answer) standings(i int) []driver.Standing {
	const fields = 7
	var list []driver.Standing
	for ; i+fields <= len(a); i += fields {
		list = append(list, driver.Standing{
			Ticket: a.number(i), Weight: a.number(i + 1), Holds: a.number(i+2) == 1, Left: a.number(i+3) == 1,
			Since: a.span(i + 4), Remaining: a.span(i + 5), Record: a.text(i + 6),
		})
	}
	return list
}
