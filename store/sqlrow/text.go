package sqlrow

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
)

// A text describes a row's claim, in the column where others have the name of a host. Its words are
//
//	stile ID LIFE DELAY OWNER CLIENT RECORD
//
// with the lease and the lock-delay in milliseconds, tags of the claim's owner and client, and, if there is room, the record
// for observers. The first word is stile-left if the claim has left and is kept.
type text struct {
	left          bool
	id            string
	life, delay   time.Duration // life includes the lock-delay
	owner, client string
	record        string
}

// who returns the beginning of a claim's text.
func who(c *driver.Claim) string { return "stile " + c.ID + " " }

// was returns its beginning when the claim has left and is kept.
func was(c *driver.Claim) string { return "stile-left " + c.ID + " " }

// text returns a claim's text, with a beginning of [who] or [was].
func (d *Driver) text(begin string, c *driver.Claim, life, delay time.Duration) string {
	s := fmt.Sprintf("%s%d %d %s %s", begin, life.Milliseconds(), delay.Milliseconds(), tag(c.Owner), tag(c.Client))
	if more := s + " " + c.Record; c.Record != "" && plain(c.Record) && len(more) <= d.room {
		return more
	}
	return s
}

// plain reports whether a text fits a column of any character set.
func plain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

func tag(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

// parse parses a text, if it is stile's.
func parse(s string) (text, bool) {
	words := strings.SplitN(s, " ", 7)
	if len(words) < 6 || words[0] != "stile" && words[0] != "stile-left" {
		return text{}, false
	}
	t := text{left: words[0] == "stile-left", id: words[1], owner: words[4], client: words[5]}
	for i, d := range []*time.Duration{&t.life, &t.delay} {
		n, err := strconv.ParseInt(words[2+i], 10, 64)
		if err != nil || n < 0 {
			return text{}, false
		}
		*d = time.Duration(min(n, driver.MaxTTL.Milliseconds())) * time.Millisecond
	}
	if len(words) > 6 {
		t.record = words[6]
	}
	return t, true
}

// reclaims reports whether a claim may remove the claim of a text: an earlier run of the same owner.
func reclaims(c *driver.Claim, s string) bool {
	t, ok := parse(s)
	return c.Reclaim && c.Owner != "" && ok && !t.left && t.owner == tag(c.Owner) && t.client != tag(c.Client)
}

// standing returns a row as an observer sees it.
func standing(by string, ticket int64, since, left time.Duration) driver.ClaimInfo {
	s := driver.ClaimInfo{
		Ticket: ticket, Weight: driver.All, Holds: true, Since: max(0, since), Remaining: left, Record: by,
	}
	t, ok := parse(by)
	if !ok {
		return s
	}
	s.Left = t.left
	if s.Remaining -= t.delay; s.Remaining == 0 {
		s.Remaining = -1 // 0 would mean unknown
	}
	if s.Record = t.record; t.record == "" {
		s.Record = "stile " + t.id
	}
	return s
}
