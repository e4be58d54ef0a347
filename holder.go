package stile

import "github.com/stilelock/stile/internal/record"

// A Holder describes a holder or waiter. The store keeps it for people to read.
type Holder struct {
	Owner   string `json:"owner,omitempty"`   // LockOptions.Owner
	Program string `json:"program,omitempty"` // the command's name
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Reason  string `json:"reason,omitempty"` // LockOptions.Reason; with no Program, why nobody can hold: a count of permits is too low
	Value   string `json:"value,omitempty"`  // a candidate's value; for a claim that is not stile's, its whole text
	Within  string `json:"within,omitempty"` // of a waiter: what its context holds in this store, a line each: a ticket, a space, the name

	// Principal is who made the claim, as the lock service knows its clients; "" if the claim came by no service, or by one
	// without credentials. A program with the store's own credentials can write any principal.
	Principal string `json:"principal,omitempty"`
}

// String names the holder in a few words.
func (h Holder) String() string { return record.Holder(h).String() }

// holderOf parses a record.
func holderOf(text string) Holder { return Holder(record.Read(text)) }
