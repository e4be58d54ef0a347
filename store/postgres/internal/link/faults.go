package link

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stilelock/stile/driver"
)

// A fault is the meaning of an error of the server.
type fault struct {
	outcome driver.Outcome // of the request; never unknown before there is a connection
	lasts   bool           // the same request gets the same answer until somebody changes something; else it may work soon
	drop    bool           // the connection is not used again
	says    string         // {user} is the user's name
}

// ErrEmptied says that the tables of locks exist, but lack the rows that are always in them.
var ErrEmptied = errors.New("the tables of locks were emptied: drop them, and they are made anew")

const (
	unknown = driver.OutcomeUnknown
	refused = driver.OutcomeRefused
)

// faults are the errors of the server and of poolers, by SQLSTATE, or by its class, the first two letters. A statement with
// an error was undone. The exceptions are errors that end the connection, since the server may have been past the commit,
// and a pooler's own errors when its connection is lost.
var faults = map[string]fault{
	// The connection, or the pooler's to the server, is lost.
	"08":    {unknown, false, true, "the connection to postgres was lost before the answer came"},
	"25P03": {unknown, false, true, "postgres ended the connection before the answer came"},
	"25P04": {unknown, false, true, "postgres ended the connection before the answer came"},
	"40003": {unknown, false, true, "postgres does not know whether it did the request"},
	"57P01": {unknown, false, true, "postgres ended the connection before the answer came"},
	"57P02": {unknown, false, true, "postgres ended the connection before the answer came"},
	"57P03": {refused, false, true, "postgres is not ready yet"},
	"57P04": {unknown, true, true, "the database was dropped"},
	"57P05": {unknown, false, true, "postgres ended the connection before the answer came"},

	// The server is not the one of the address, or serves another client's session.
	"25006": {refused, false, true, "postgres is read-only here, such as a standby: the address must lead to the primary"},
	"25P02": {refused, false, true, "the connection was in a transaction of somebody else's"},
	"26000": {refused, false, true, "the connection leads to another session than before, as through a pooler"},
	"42P05": {refused, false, true, "the connection leads to another session than before, as through a pooler"},

	// Other transactions block this one.
	"40001": {refused, false, false, "postgres undid the request, since it was in the way of others"},
	"40P01": {refused, false, false, "postgres undid the request, since it was in the way of others"},
	"55P03": {refused, false, false, "another transaction has held the row of this name for longer than lock_timeout"},
	"57014": {refused, false, false, "postgres ended the request: " +
		"it took longer than statement_timeout, or somebody cancelled it"},

	// The server lacks a resource.
	"53":    {refused, false, false, "postgres is short of something"},
	"53100": {refused, true, false, "postgres has no room: the disk is full"},
	"53300": {refused, false, true, "postgres has no connection left: raise max_connections, or use fewer"},

	// A person must change something.
	"28000": {refused, true, true, "postgres does not let user {user} in with this password"},
	"28P01": {refused, true, true, "postgres does not let user {user} in with this password"},
	"3D000": {refused, true, true, "postgres has no such database"},
	"42501": {refused, true, false, "postgres does not let user {user} do this; " +
		"the package documentation of postgres lists the rights"},
	"3F000": {refused, true, false, "the tables of locks are gone"},
	"42P01": {refused, true, false, "the tables of locks are gone"},
	"42883": {refused, true, false, "the tables of locks are gone"},
	"STI01": {refused, true, false, "the default isolation of transactions is another one here: " +
		"locks need read committed, for the user or in the URL of the pool"},
	"STI03": {refused, true, false, "the tables of locks are of another version"},
	"STI02": {refused, true, false, ErrEmptied.Error()},
}

// Faults without a row.
var (
	anyFault = fault{refused, true, false, "postgres refused the request"}
	anyFatal = fault{unknown, false, true, "postgres ended the connection before the answer came"}
	noEntry  = fault{refused, false, true, "postgres takes no connection"}

	// It is the pooler's error, and nothing reached postgres.
	noTransactions = fault{refused, true, true, "the pooler in front of postgres takes no transactions, and locks need them: " +
		"set PgBouncer's pool_mode to session or, for locks in tables, transaction"}
)

// faultOf returns the meaning of an error; connecting says that there was no connection yet.
func faultOf(r *pgconn.PgError, connecting bool) fault {
	f, known := faults[r.Code]
	if !known && len(r.Code) > 2 {
		f, known = faults[r.Code[:2]]
	}
	if r.Code == "08P01" && strings.Contains(r.Message, "statement pooling mode") {
		return noTransactions
	}
	fatal := r.SeverityUnlocalized == "FATAL" || r.SeverityUnlocalized == "PANIC"
	switch {
	case known && fatal && !connecting && !f.drop:
		return anyFatal // the SQLSTATE may mean a full disk, after the commit
	case known:
		return f
	case fatal && connecting:
		return noEntry
	case fatal:
		return anyFatal
	}
	return anyFault
}

// An answer is the server's answer in presentable form, and its SQLSTATE.
type answer struct{ text, code string }

func (a *answer) Error() string { return a.text }

// Code returns the SQLSTATE of an error that a link has explained, or "" if the server did not answer.
func Code(err error) string {
	if a, ok := errors.AsType[*answer](err); ok {
		return a.code
	}
	return ""
}

// answered explains the server's error answer.
func (l *Link) answered(r *pgconn.PgError, connecting bool) error {
	f := faultOf(r, connecting)
	says := strings.ReplaceAll(f.says, "{user}", fmt.Sprintf("%q", l.config.User))
	var err error = &answer{fmt.Sprintf("%s (%s, SQLSTATE %s)", says, l.Hide(r.Message), r.Code), r.Code}
	if !f.lasts {
		err = driver.Unreachable(err)
	}
	switch {
	case f.outcome == refused:
		return driver.Refused(err)
	case connecting:
		return driver.Unsent(err)
	}
	return err
}

// Crowded reports whether an error says that the server accepts no more connections. Its present connections go on.
func Crowded(err error) bool {
	r, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.HasPrefix(r.Code, "53")
}

// Drops reports whether a connection must not be used again after this error.
func Drops(err error) bool {
	r, ok := errors.AsType[*pgconn.PgError](err)
	return ok && faultOf(r, false).drop
}
