package conn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// An Answer has a script's results without key, id and status, or one text that begins with the id.
type Answer []rueidis.RedisMessage

// ErrOther says that an answer belongs to another request.
var ErrOther = errors.New("redis answered another request than this one: the connection is not to be trusted")

// Mixed gives up the connections, since an answer belonged to another request, and later answers may too. The caller's own
// client keeps its connections. Mixed returns the error for the request, whose outcome is unknown.
func (c *Conn) Mixed() error {
	c.Doubt()
	c.strays()
	return ErrOther
}

// read parses an answer and checks that it belongs to this request.
func (c *Conn) read(ctx context.Context, r rueidis.RedisResult, s *Script, q Request) (Answer, error) {
	c.note(r)
	m, err := r.ToMessage()
	if err = c.explain(ctx, err); errors.Is(err, driver.ErrForeign) {
		keys := s.keys(q.Key)
		if wrongType(r) { // a script checks the first key's type itself
			return nil, fmt.Errorf("%w: key %q is of another type than stile's", driver.ErrForeign, keys[len(keys)-1])
		}
		return nil, foreignKey(q.Key, "string")
	}
	if err != nil {
		return nil, err
	}
	// ToString of a list would make an error each time: 8 % of the client's time with 64 goroutines (bench -only apart).
	if m.IsString() {
		if text, _ := m.ToString(); q.ID != "" && begins(text, q.ID) {
			return Answer{m}, nil
		}
	}
	list, _ := m.ToArray()
	a := Answer(list)
	if len(a) < 3 || a.Text(0) != q.Key || a.Text(1) != q.ID {
		return nil, c.Mixed()
	}
	rest := a[3:]
	switch status := a.Text(2); status {
	case "ok":
		return rest, nil
	case "gone":
		return nil, driver.ErrGone
	case "foreign":
		return nil, foreignKey(q.Key, rest.Text(0))
	case "capacity":
		return nil, &driver.CapacityError{Have: rest.Number(0)}
	default:
		return nil, fmt.Errorf("redis answered with unknown status %q", status)
	}
}

// begins reports whether the first line of a text is this one.
func begins(text, line string) bool {
	return strings.HasPrefix(text, line) && (len(text) == len(line) || text[len(line)] == '\n')
}

// note remembers that a call found no connection, so that the next call checks for one before it sends its request.
func (c *Conn) note(r rueidis.RedisResult) {
	if r.NonRedisError() != nil {
		c.Doubt()
	}
}

func wrongType(r rueidis.RedisResult) bool {
	refusal, ok := rueidis.IsRedisErr(r.Error())
	return ok && strings.HasPrefix(bare(refusal.Error()), "WRONGTYPE")
}

func foreignKey(key, kind string) error {
	return fmt.Errorf("%w: key %q is a %s", driver.ErrForeign, key, kind)
}

// Text returns a text of the answer, or "" if the answer has none there.
func (a Answer) Text(i int) string {
	if i >= len(a) {
		return ""
	}
	s, _ := a[i].ToString()
	return s
}

// Number returns a number of the answer, or 0 if the answer has none there.
func (a Answer) Number(i int) int64 {
	if i >= len(a) {
		return 0
	}
	n, _ := a[i].AsInt64()
	return n
}

// Span returns a number of microseconds as a duration.
func (a Answer) Span(i int) time.Duration { return time.Duration(a.Number(i)) * time.Microsecond }

// Standings parses the claims that begin at i.
func (a Answer) Standings(i int) []driver.ClaimInfo {
	const fields = 7
	var list []driver.ClaimInfo
	for ; i+fields <= len(a); i += fields {
		list = append(list, driver.ClaimInfo{
			Ticket: a.Number(i), Weight: a.Number(i + 1), Holds: a.Number(i+2) == 1, Left: a.Number(i+3) == 1,
			Since: a.Span(i + 4), Remaining: a.Span(i + 5), Record: a.Text(i + 6),
		})
	}
	return list
}
