package mysql

import (
	"crypto/sha256"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// A phrase is a text with marks for what differs from call to call. A MariaDB keeps what it has parsed of it for each connection
// of a pool that is the store's own (PREPARE), and is sent only what differs (EXECUTE). The first time on a connection it is sent
// the text: a client that does one thing and ends gains nothing from more.
//
// What it keeps is 32 kB, and counts for its max_prepared_stmt_count. On one core, to pass a lock on takes 0.74 of the time of the
// text, and to enter behind others 0.70: go test -run NONE -bench Phrases .
type phrase struct {
	parts []string // of the text, around the marks
	order []int    // which argument is at each mark
	name  string   // by which the server keeps it; empty: it does not
}

// A mark is %[1]v, by the number of the argument, or one of %v, %s and %d, which are in order.
var marked = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`%(?:\[(\d+)\])?[vsd]`) })

// phrase makes a phrase of a text.
func (s *store) phrase(text string) *phrase {
	p, from, next := &phrase{}, 0, 0
	for _, at := range marked().FindAllStringSubmatchIndex(text, -1) {
		n := next
		if at[2] >= 0 {
			n, _ = strconv.Atoi(text[at[2]:at[3]])
			n--
		}
		next = n + 1
		p.parts, p.order, from = append(p.parts, text[from:at[0]]), append(p.order, n), at[1]
	}
	p.parts = append(p.parts, text[from:])
	if s.keeps && s.owned != nil {
		sum := sha256.Sum256([]byte(text))
		p.name = fmt.Sprintf("stile_%x", sum[:8])
	}
	return p
}

// text is the whole of it, with literals at the marks.
func (p *phrase) text(args []string) string {
	var b strings.Builder
	for i, part := range p.parts {
		if i > 0 {
			b.WriteString(args[p.order[i-1]])
		}
		b.WriteString(part)
	}
	return b.String()
}

func (p *phrase) prepares() string {
	return "PREPARE " + p.name + " FROM '" + strings.ReplaceAll(strings.Join(p.parts, "?"), "'", "''") + "'"
}

// begins has a block prepared in a block: a KILL that comes between two statements of a text leaves the rest of it without an answer.
func (p *phrase) begins(args []string) string {
	text := p.prepares() + "; " + p.executes(args)
	if strings.HasPrefix(p.parts[0], block) {
		return block + text + "; END"
	}
	return text
}

// block begins statements that MariaDB takes as one; END ends them.
const block = "BEGIN NOT ATOMIC "

func (p *phrase) executes(args []string) string {
	if len(p.order) == 0 {
		return "EXECUTE " + p.name
	}
	all := make([]string, len(p.order))
	for i, n := range p.order {
		all[i] = args[n]
	}
	return "EXECUTE " + p.name + " USING " + strings.Join(all, ", ")
}

// sent sends a phrase by run, which sends a text.
func sent[T any](s *store, conn *sql.Conn, p *phrase, args []string, run func(text string) (T, error)) (T, error) {
	var text string
	switch s.meets(conn, p) {
	case kept:
		text = p.executes(args)
	case keepNext:
		text = p.begins(args)
	default:
		return run(p.text(args))
	}
	t, err := run(text)
	switch number(err) {
	case notKept, keptMost: // nothing was done: the connection leads to another one of the server, or it keeps as many as it may
		s.keepsNone.Store(true)
		return run(p.text(args))
	case syntax: // from 11.2 on also in the middle of a block, a table of which has changed: it is parsed anew, and may have no marks then
		s.keepsNone.Store(true)
	}
	return t, err
}

// meets returns what the server of a connection has of a phrase that is about to be sent, and notes that it is.
func (s *store) meets(conn *sql.Conn, p *phrase) (was keeping) {
	if p.name == "" || s.keepsNone.Load() {
		return keepNot
	}
	_ = conn.Raw(func(c any) error { // a connection that is lost says so to what is sent on it
		if c, ok := c.(*ownConn); ok {
			was = c.kept[p.name]
			c.kept[p.name] = min(was+1, kept)
		}
		return nil
	})
	return was
}

// A keeping is what a connection's server has of a phrase.
type keeping int

const (
	keepNot  keeping = iota // it has never seen it
	keepNext                // it has seen the text, and keeps what it parses of it the next time
	kept                    // it keeps that
)

// An ownConn is a connection of a pool that is the store's own.
type ownConn struct {
	wholeConn
	kept map[string]keeping // by name of a phrase
}

// wholeConn is what a connection of go-sql-driver can do.
type wholeConn interface {
	sqldriver.Conn
	sqldriver.ConnBeginTx
	sqldriver.ConnPrepareContext
	sqldriver.ExecerContext
	sqldriver.QueryerContext
	sqldriver.NamedValueChecker
	sqldriver.Pinger
	sqldriver.SessionResetter
	sqldriver.Validator
}
