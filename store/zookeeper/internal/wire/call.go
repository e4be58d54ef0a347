package wire

import "time"

// A Stat is the server's metadata of a node.
type Stat struct {
	Czxid    int64 // the transaction that created it
	Ctime    int64 // when it was created, by the leader's wall clock, in milliseconds since 1970
	Owner    int64 // the session of an ephemeral node, or 0
	Children int32
	Version  int32 // how often its data were replaced
}

func (r *reader) stat() Stat {
	var s Stat
	s.Czxid = r.long()
	r.long() // mzxid
	s.Ctime = r.long()
	r.long() // mtime
	s.Version = r.int()
	r.int() // cversion
	r.int() // aversion
	s.Owner = r.long()
	r.int() // length of the data
	s.Children = r.int()
	r.long() // pzxid
	return s
}

// A Call is one request, and after [Session.Do] has returned nil also its answer. It is used once.
type Call struct {
	Err error // the server's refusal, a [Code]; nil if the request was carried out

	Path     string // of Create and Replace: the node that was made
	Data     string // of Get
	Stat     Stat   // of Create, Replace, SetAt, Get, Exists and List
	Children []string

	op     int32
	path   string
	body   []byte
	watch  *Watch
	read   func(*Call, *reader)
	agreed bool // the answer shows that a quorum followed the leader after the request was sent

	xid  int32
	sent time.Duration
	fate error         // why there is no answer; nil if there is one
	done chan struct{} // closed when there is an answer, or there never will be one
}

// The protocol's numbers of requests.
const (
	opCreate          int32 = 1
	opCreate2         int32 = 15
	opDelete          int32 = 2
	opExists          int32 = 3
	opGetData         int32 = 4
	opSetData         int32 = 5
	opSync            int32 = 9
	opPing            int32 = 11
	opChildren2       int32 = 12
	opCheck           int32 = 13
	opMulti           int32 = 14
	opCreateContainer int32 = 19
	opAuth            int32 = 100
	opGetEphemerals   int32 = 103
	opClose           int32 = -11
)

// Kinds of nodes, by the protocol's numbers.
const (
	persistent          int32 = 0
	EphemeralSequential int32 = 3
	container           int32 = 4
)

// An ACL says who may do something with a node.
type ACL int

// The two ACLs that stile offers.
const (
	Open    ACL = iota // everybody may do anything
	Creator            // only users that authenticated as the node's creator may do anything
)

func (a ACL) put(b []byte) []byte {
	const all = 31
	scheme, id := "world", "anyone"
	if a == Creator {
		scheme, id = "auth", ""
	}
	return putText(putText(putInt(putInt(b, 1), all), scheme), id)
}

func newCall(op int32, path string, body []byte, read func(*Call, *reader)) *Call {
	return &Call{op: op, path: path, body: body, read: read, done: make(chan struct{})}
}

// Create makes an ephemeral node. Its name is the path and a number that the server appends.
func Create(path, data string, acl ACL) *Call {
	body := putInt(acl.put(putText(putText(nil, path), data)), EphemeralSequential)
	c := newCall(opCreate2, path, body, func(c *Call, r *reader) { c.Path, c.Stat = r.text(), r.stat() })
	c.agreed = true
	return c
}

// CreateContainer makes a node that the server removes when its last child has gone.
func CreateContainer(path string, acl ACL) *Call {
	body := putInt(acl.put(putText(putText(nil, path), "")), container)
	c := newCall(opCreateContainer, path, body, func(c *Call, r *reader) { c.Path, c.Stat = r.text(), r.stat() })
	c.agreed = true
	return c
}

// CreatePersistent makes a node that stays.
func CreatePersistent(path, data string, acl ACL) *Call {
	body := putInt(acl.put(putText(putText(nil, path), data)), persistent)
	c := newCall(opCreate2, path, body, func(c *Call, r *reader) { c.Path, c.Stat = r.text(), r.stat() })
	c.agreed = true
	return c
}

// Delete removes a node.
func Delete(path string) *Call { return DeleteAt(path, -1) }

// DeleteAt removes a node if it still has this version; otherwise it is refused with [BadVersion].
func DeleteAt(path string, version int32) *Call {
	c := newCall(opDelete, path, putInt(putText(nil, path), version), nil)
	c.agreed = true
	return c
}

// Set replaces a node's data.
func Set(path, data string) *Call { return SetAt(path, data, -1) }

// SetAt replaces a node's data if the node still has this version.
func SetAt(path, data string, version int32) *Call {
	body := putInt(putText(putText(nil, path), data), version)
	c := newCall(opSetData, path, body, func(c *Call, r *reader) { c.Stat = r.stat() })
	c.agreed = true
	return c
}

// Agree changes nothing, but goes through the same agreement as a change. Its answer shows that the ensemble still works,
// and that everything done before the request was sent has reached the server that answered.
func Agree(path string) *Call {
	body := putInt(putBool(putInt(nil, opCheck), false), -1)
	body = putInt(putText(body, path), -1)
	body = putInt(putBool(putInt(body, -1), true), -1)
	c := newCall(opMulti, path, body, nil)
	c.agreed = true
	return c
}

// Sync makes the leader's earlier changes visible to the requests after it.
func Sync(path string) *Call { return newCall(opSync, path, putText(nil, path), nil) }

// Get reads a node's data. A watch, unless nil, fires when the node changes or goes. It is not set if the node does not
// exist.
func Get(path string, w *Watch) *Call {
	read := func(c *Call, r *reader) { c.Data, c.Stat = r.text(), r.stat() }
	return watching(newCall(opGetData, path, putBool(putText(nil, path), w != nil), read), w)
}

// Exists asks whether a node exists. A watch, unless nil, fires when the node comes, changes or goes.
func Exists(path string, w *Watch) *Call {
	read := func(c *Call, r *reader) { c.Stat = r.stat() }
	return watching(newCall(opExists, path, putBool(putText(nil, path), w != nil), read), w)
}

// List asks for the names of a node's children. A watch, unless nil, fires when a child comes or goes.
func List(path string, w *Watch) *Call {
	read := func(c *Call, r *reader) { c.Children, c.Stat = r.texts(), r.stat() }
	return watching(newCall(opChildren2, path, putBool(putText(nil, path), w != nil), read), w)
}

// Ephemerals asks for the paths of the session's nodes that begin with a text, and puts them into Children. Servers before
// 3.6 refuse it with [Unimplemented], and then end the connection.
func Ephemerals(begin string) *Call {
	return newCall(opGetEphemerals, begin, putText(nil, begin), func(c *Call, r *reader) { c.Children = r.texts() })
}

// watching makes a call set a watch, unless the watch is nil.
func watching(c *Call, w *Watch) *Call {
	c.watch = w
	return c
}

// answered decodes the answer.
func (c *Call) answered(code Code, body []byte) {
	if code != 0 {
		c.Err = code
	} else if c.read != nil {
		r := reader{b: body}
		if c.read(c, &r); r.err != nil {
			c.fate = &Broken{r.err}
		}
	}
}

// Watch returns the call's watch.
func (c *Call) Watch() *Watch { return c.watch }

// Unwatch drops the call's watch, if there is a call.
func (c *Call) Unwatch() {
	if c != nil {
		c.watch.Drop()
	}
}

// Target returns the path that the call is about.
func (c *Call) Target() string { return c.path }
