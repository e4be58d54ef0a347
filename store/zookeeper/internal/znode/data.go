package znode

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// Data is the content of a claim's node. It is stored as JSON, which is valid UTF-8, as other clients expect.
type Data struct {
	Stile  int           `json:"stile"` // the version of this format, 1
	Client string        `json:"client,omitempty"`
	Owner  string        `json:"owner,omitempty"`
	Record string        `json:"record,omitempty"`
	Binary string        `json:"binary,omitempty"` // the record in base64, if it is not valid UTF-8
	Kept   time.Duration `json:"kept,omitempty"`   // the claim has left, and its node stays this long
	Asks   int64         `json:"asks,omitempty"`   // how often somebody has asked for the lock
	First                // the claim's first node, if this is another one
}

// A First is the first of a claim's nodes. An amendment puts another node in its place, and a claim of a semaphore that comes
// to hold has further nodes. All of them have the claim's ticket and time.
type First struct {
	Ticket int64 `json:"ticket,omitempty"` // the transaction that created the node
	Since  int64 `json:"since,omitempty"`  // when, by the leader's clock, in milliseconds since 1970; earlier versions leave it out
}

// DataVersion is the version of the format.
const DataVersion = 1

// RevokeWord is the text that Curator's revocation writes over the data of a holder's node.
const RevokeWord = "__REVOKE__"

// NewData returns the content of the node of a claim.
func NewData(c *driver.Claim) Data {
	d := Data{Stile: DataVersion, Client: c.Client, Owner: c.Owner, Record: c.Record}
	if !utf8.ValidString(c.Record) {
		d.Record, d.Binary = "", base64.StdEncoding.EncodeToString([]byte(c.Record))
	}
	return d
}

// Text returns the data as they are stored.
func (d *Data) Text() string {
	text, err := json.Marshal(d)
	if err != nil {
		panic(err) // texts and numbers can always be encoded
	}
	return string(text)
}

// ReadData reads the content of a node. Data of another client become the record, up to [driver.MaxRecord] bytes.
func ReadData(text string) Data {
	var d Data
	if err := json.Unmarshal([]byte(text), &d); err != nil || d.Stile != DataVersion {
		return Data{Record: text[:min(len(text), driver.MaxRecord)]}
	}
	if d.Binary != "" {
		record, err := base64.StdEncoding.DecodeString(d.Binary)
		if err == nil {
			d.Record = string(record)
		}
	}
	return d
}

// Write puts a record into data.
func (d *Data) Write(record string) {
	fresh := NewData(&driver.Claim{Record: record})
	d.Record, d.Binary = fresh.Record, fresh.Binary
}

// FirstBy returns the first node of the claim, by the data and the stat of any of its nodes.
func (d *Data) FirstBy(stat *wire.Stat) First {
	return First{Ticket: cmp.Or(d.Ticket, stat.Czxid), Since: cmp.Or(d.Since, stat.Ctime)}
}

// TicketOf returns the ticket of a node's claim.
func TicketOf(get *wire.Call) int64 {
	held := ReadData(get.Data)
	return held.FirstBy(&get.Stat).Ticket
}
