package zookeeper

import (
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/stilelock/stile/driver"
)

// data is the content of a claim's node, as JSON, and so as the valid UTF-8 that other clients expect.
type data struct {
	Stile  int           `json:"stile"` // the version of this format, 1
	Client string        `json:"client,omitempty"`
	Owner  string        `json:"owner,omitempty"`
	Record string        `json:"record,omitempty"`
	Binary string        `json:"binary,omitempty"` // the record in base64, if it is not valid UTF-8
	Kept   time.Duration `json:"kept,omitempty"`   // the claim has left, and its node stays this long
	Asks   int64         `json:"asks,omitempty"`   // how often somebody has asked for the lock
	Ticket int64         `json:"ticket,omitempty"` // of the claim, if it differs from the node's
}

const dataVersion = 1

// revokeWord is the text that Curator's revocation writes over the data of a holder's node.
const revokeWord = "__REVOKE__"

// newData returns the content of the node of a claim.
func newData(c *driver.Claim) data {
	d := data{Stile: dataVersion, Client: c.Client, Owner: c.Owner, Record: c.Record}
	if !utf8.ValidString(c.Record) {
		d.Record, d.Binary = "", base64.StdEncoding.EncodeToString([]byte(c.Record))
	}
	return d
}

// text returns the data as they are stored.
func (d *data) text() string {
	text, err := json.Marshal(d)
	if err != nil {
		panic(err) // texts and numbers can always be encoded
	}
	return string(text)
}

// readData reads the content of a node. Data that are not stile's become the record, unchanged.
func readData(text string) data {
	var d data
	if err := json.Unmarshal([]byte(text), &d); err != nil || d.Stile != dataVersion {
		return data{Record: text[:min(len(text), driver.MaxRecord)]}
	}
	if d.Binary != "" {
		record, err := base64.StdEncoding.DecodeString(d.Binary)
		if err == nil {
			d.Record = string(record)
		}
	}
	return d
}
