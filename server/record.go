package server

import (
	"fmt"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/record"
)

// Claims in the store name their principals, in their records. The server adds the principal to the record of each claim and
// each break, and takes it off again, so that clients get each other's records unchanged and the principal beside. Without an
// Authenticator nobody has a principal, and records pass unchanged. A claim that came from elsewhere has none either, unless
// its client has written one: whoever has the store's own credentials can do so.

// record returns a caller's record as the store keeps it. What the store keeps is bounded, so a caller with a principal has less
// room.
func (c *caller) record(text string) (string, error) {
	if c.Principal == nil {
		return text, nil
	}
	stored := record.With(text, c.Name)
	if len(stored) > driver.MaxRecord {
		return "", invalid(fmt.Errorf("the record takes %d bytes with its principal; the limit is %d", len(stored), driver.MaxRecord))
	}
	return stored, nil
}

// info returns a claim of the store as the caller sees it. Its record says what a waiter has meanwhile only of names that the caller
// may read.
func (c *caller) info(d driver.ClaimInfo) driver.ClaimInfo {
	if c.Principal == nil {
		return d
	}
	d.Record, d.Principal = record.Whose(d.Record)
	d.Record = record.Readable(d.Record, func(name string) bool { return c.may(name, Read) })
	return d
}

// holderOf reads the record of a claim, as clients see it.
func holderOf(c *driver.ClaimInfo) record.Holder {
	return record.Read(record.With(c.Record, c.Principal))
}

// listing returns a queue of the store as the caller sees it.
func (c *caller) listing(l driver.Listing) *api.Listing {
	for i := range l.Claims {
		l.Claims[i] = c.info(l.Claims[i])
	}
	return api.NewListing(l)
}

// errorOf returns an error in the form of an answer. If the error has a record, its client sees it as it sees the records of
// claims.
func (s *Server) errorOf(err error) *api.Error {
	e := errorOf(err)
	s.unwrap(e)
	return e
}

func (s *Server) unwrap(e *api.Error) {
	if e == nil || s.authenticate == nil || e.Code != api.CodeBroken && e.Code != api.CodeRecord {
		return
	}
	text, principal := record.Split(string(e.Record))
	if e.Record = []byte(text); e.Code == api.CodeBroken {
		e.Principal = principal
	}
}
