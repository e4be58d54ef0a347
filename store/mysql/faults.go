package mysql

import (
	"fmt"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/sqldb"
)

// Error numbers of the server, and of proxies that answer in its place.
const (
	recordChanged    = 1020 // the row has changed since the transaction's snapshot
	diskFull         = 1021
	errorOnWrite     = 1026
	tooManyClients   = 1040
	databaseDenied   = 1044
	accessDenied     = 1045
	notPrepared      = 1047
	noSuchDatabase   = 1049
	shuttingDown     = 1053
	noSuchColumn     = 1054
	syntax           = 1064
	recordFileFull   = 1114
	tableDenied      = 1142
	columnDenied     = 1143
	noSuchTable      = 1146
	readError        = 1158
	readInterrupted  = 1159
	writeError       = 1160
	writeInterrupted = 1161
	duringCommit     = 1180
	tooManyOfUser    = 1203
	noSavepoint      = 1305
	lockWait         = 1205
	deadlock         = 1213
	resourceLimited  = 1226
	readOnlyOption   = 1290
	interrupted      = 1317
	notLogged        = 1598
	readOnlyTx       = 1792
	readOnlyMode     = 1836
	killed           = 1927
	statementTime    = 1969 // MariaDB
	noSocket         = 2002
	noServer         = 2003
	serverGone       = 2006
	serverLost       = 2013
	executionTime    = 3024 // MySQL
	offline          = 3032
	hookFailed       = 3100 // in Group Replication, before or after the commit
	notCertified     = 3101 // Group Replication has undone the transaction
	idleTooLong      = 4031
	noBackend        = 9001 // ProxySQL
	noBackendAgain   = 9002 // ProxySQL, after several tries
)

// A fault is the meaning of an error number of the server.
type fault struct {
	outcome driver.Outcome // of a request that may have been applied by then
	lasts   bool           // the same request gets the same answer until somebody changes something; else it may work soon
	drop    bool           // the connection is not used again
	says    string
}

const (
	unknown = driver.OutcomeUnknown
	refused = driver.OutcomeRefused
)

// faults are the errors of the server and of proxies. A refused statement was undone. The exceptions are errors that can
// come during or after a commit, and a proxy's own errors when its connection is lost.
var faults = map[uint16]fault{
	// The connection, or the proxy's to the server, is lost.
	shuttingDown:     {unknown, false, true, "the server shuts down"},
	killed:           {unknown, false, true, "the server ended the connection"},
	readError:        {unknown, false, true, "the server lost the connection"},
	readInterrupted:  {unknown, false, true, "the server lost the connection"},
	writeError:       {unknown, false, true, "the server lost the connection"},
	writeInterrupted: {unknown, false, true, "the server lost the connection"},
	noSocket:         {unknown, false, true, "a proxy has no connection to the server"},
	noServer:         {unknown, false, true, "a proxy has no connection to the server"},
	serverGone:       {unknown, false, true, "a proxy has lost its connection to the server"},
	serverLost:       {unknown, false, true, "a proxy has lost its connection to the server"},
	noBackend:        {unknown, false, true, "a proxy has no connection to the server"},
	noBackendAgain:   {unknown, false, true, "a proxy has no connection to the server"},
	idleTooLong:      {refused, false, true, "the server had ended the connection"},
	offline:          {refused, false, true, "the server is offline"},
	notPrepared:      {refused, false, true, "the server is not ready"},

	// Errors of a commit.
	duringCommit: {unknown, false, true, "the server failed while it committed"},
	hookFailed:   {unknown, false, true, "the server failed while it committed"},
	notLogged:    {unknown, false, true, "the server could not write its binary log, which may have the transaction"},
	errorOnWrite: {unknown, false, true, "the server could not write a file, such as its binary log"},
	notCertified: {refused, false, false, "another server of the group has changed the row of the name"},

	// The address does not lead to the right server.
	readOnlyOption: {refused, false, true, "the server accepts no writes"},
	readOnlyTx:     {refused, false, true, "the server accepts no writes"},
	readOnlyMode:   {refused, false, true, "the server accepts no writes"},

	// Another transaction blocks this one, or an administrator stops it. A statement that is a transaction of its own may
	// have committed before it was interrupted.
	recordChanged: {refused, false, false, "others hold the row of the name"},
	lockWait:      {refused, false, false, "others hold the row of the name"},
	deadlock:      {refused, false, false, "others hold the row of the name"},
	interrupted:   {unknown, false, false, "somebody ended the statement"},
	statementTime: {unknown, false, false, "the server's limit for a statement ended it"},
	executionTime: {unknown, false, false, "the server's limit for a statement ended it"},

	// The server lacks a resource.
	tooManyClients:  {refused, false, true, "the server has no connection left"},
	tooManyOfUser:   {refused, false, true, "the server has no connection left for the user"},
	resourceLimited: {refused, false, true, "the user has used up what the server allows"},
	diskFull:        {refused, false, false, "the server has no room"},
	recordFileFull:  {refused, false, false, "the server has no room"},

	// A person must change something.
	accessDenied:   {refused, true, true, "the server does not let the user in with this password"},
	noSuchDatabase: {refused, true, true, "the server has no such database"},
	databaseDenied: {refused, true, false, "the user lacks a right, which the documentation of the store lists"},
	tableDenied:    {refused, true, false, "the user lacks a right, which the documentation of the store lists"},
	columnDenied:   {refused, true, false, "the user lacks a right, which the documentation of the store lists"},
	noSuchTable:    {refused, true, false, "a table of locks is not there"},
}

// Errors without a row in the table. The numbers from 2000 to 2999 belong to MySQL's client library; a proxy passes them on.
var (
	anyFault   = fault{outcome: refused, lasts: true}
	proxyFault = fault{unknown, false, true, "a proxy has lost its connection to the server"}
)

// faultOf returns the meaning of an error. An error without a number of the server is a connection's error.
func faultOf(err error) fault {
	n := number(err)
	if n == 0 {
		return fault{outcome: unknown, drop: true}
	}
	if f, ok := faults[n]; ok {
		return f
	}
	if 2000 <= n && n < 3000 {
		return proxyFault
	}
	return anyFault
}

// undone reports whether the server refused: the writes and the commit were not done.
func undone(err error) bool { return faultOf(err).outcome == refused }

// answered returns the error for the server's answer, without a mark of its outcome. The cause has the answer's text.
func answered(err, cause error) error {
	f := faultOf(err)
	if f.says != "" {
		cause = fmt.Errorf("%s: %w", f.says, cause)
	}
	if number(err) == noSuchTable {
		return &sqldb.LostError{Reason: cause}
	}
	if !f.lasts {
		return driver.Unreachable(cause)
	}
	return cause
}
