package server

import (
	"errors"
	"net/http"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
)

// The codes of the simple API in addition to package api's.
const (
	codeHeld        = "held"        // the claim waits, or did not enter
	codePlaceLost   = "place_lost"  // the waiting claim is gone
	codeSuperseded  = "superseded"  // another request about the claim has ended this one
	codeUnreachable = "unreachable" // the server cannot ask the store, or is ending
)

var errSuperseded = driver.Unknown(errors.New("another request about the same claim has ended this wait"))

// A failure is an error of the simple API. It has the fields of an [api.Error], and its code may be one of package api's.
type failure struct {
	status      int
	after       time.Duration // when to ask again; 0 means not said
	Code        string        `json:"code"`
	Outcome     string        `json:"outcome"`
	Unreachable bool          `json:"unreachable,omitempty"`
	Message     string        `json:"message"`
	Have        int64         `json:"have,omitempty"`
	Want        int64         `json:"want,omitempty"`
	Handle      string        `json:"handle,omitempty"` // of a PUT: for the next PUT, and for DELETE
	Holder      *member       `json:"holder,omitempty"` // of codeHeld, if the store names it
	Request     string        `json:"request"`
}

// failed returns the failure for an error.
func failed(err error) *failure {
	e := errorOf(err)
	f := &failure{
		status: e.Status(), Code: e.Code, Outcome: e.Outcome, Unreachable: e.Unreachable, Message: e.Message, Have: e.Have,
		Want: e.Want, after: afterOf(err),
	}
	switch {
	case e.Code == api.CodeCapacity:
		f.Message = "the name is in use with other permits: " + e.Message // a driver's error has no subject
	case e.Code == api.CodeTooMany:
	case e.Unreachable:
		f.Code = codeUnreachable
	case errors.Is(err, driver.ErrGone): // also by a break, or with its session
		f.Code = api.CodeGone
	}
	return f
}

// notHad returns the failure of a PUT, with a handle for the next PUT. If the claim is gone, there is no handle: the next
// PUT needs a new id.
func notHad(h *handle, err error) *failure {
	f := failed(err)
	switch {
	case errors.Is(err, errSuperseded):
		f.status, f.Code = http.StatusConflict, codeSuperseded
	case errors.Is(err, driver.ErrGone):
		f.status, f.Code = http.StatusGone, codePlaceLost
		f.Message = "the claim is no longer in the queue: take the lock again, without this handle"
		return f
	}
	f.Handle = h.String()
	return f
}

// held returns the failure of a claim that waits. Without a ticket the claim did not enter.
func (s *Server) held(who *caller, name string, h *handle, p *driver.Place) *failure {
	f := &failure{
		status: http.StatusConflict, Code: codeHeld, Outcome: driver.OutcomeRefused.String(),
		Message: "the lock is held, and this PUT has not waited: to wait, give it a wait, such as ?wait=30s",
	}
	if b := who.place(name, *p).Blocker; b != (driver.ClaimInfo{}) {
		f.Holder = s.member(b, 0)
	}
	if h.ticket != 0 {
		f.Handle, f.Message = h.String(), "the lock is held: a PUT with the handle within "+grace.String()+" waits on at the "+
			"same place, and DELETE gives it up"
	}
	return f
}
