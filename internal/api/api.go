// Package api has the requests and answers of the lock service. Each request is one call of package driver, as JSON.
// Package server answers them, and package store/remote sends them.
//
// Durations are integers of nanoseconds, and their names end in _ns. Tickets are strings of digits, since JavaScript and jq
// round numbers from 1<<53 on, and a token, which is made of a ticket, is larger. Records are base64.
//
// An error is JSON too: see [Error]. An answer in any other form comes from something between the client and the service,
// such as a proxy. It says nothing about the request, whose outcome is unknown.
package api

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
)

// The paths of the requests. All are POST requests with a body of JSON, except Watch: GET with the parameter name, answered
// by events.
const (
	Enter    = "/v1/enter"    // EnterRequest, PlaceAnswer
	Await    = "/v1/await"    // AwaitRequest, PlaceAnswer
	Renew    = "/v1/renew"    // RenewRequest, RenewAnswer
	Leave    = "/v1/leave"    // LeaveRequest, LeaveAnswer
	List     = "/v1/list"     // ListRequest, a ListPart per line
	Break    = "/v1/break"    // BreakRequest, BreakAnswer
	Identity = "/v1/identity" // Nothing, IdentityAnswer
	Traits   = "/v1/traits"   // Nothing, TraitsAnswer
	Watch    = "/v1/watch"    // events
	Alerts   = "/v1/alerts"   // AlertsRequest, events
)

// The types of bodies.
const (
	JSON   = "application/json"
	Lines  = "application/x-ndjson"
	Events = "text/event-stream"
)

// The events of Watch and of Alerts. A line that begins with a colon only says that the service is alive.
const (
	EventChanged = "event: changed"
	EventAlert   = "event: alert" // its data is an Alert
	EventEnd     = "event: end"   // its data is an Error
	EventData    = "data: "
)

// Alive is how often, without other events, the service says that it is alive.
const Alive = 10 * time.Second

// TraitsTag is the header in which each answer names the traits of the store. Other traits have another tag.
const TraitsTag = "Stile-Traits"

// Bounds of requests and answers.
const (
	MaxRequest = 1 << 20          // bytes of a request's body
	MaxAnswer  = 8 << 20          // bytes of an answer, except List's
	MaxList    = 256 << 20        // bytes of List's answer
	MaxClaims  = 512              // claims of one renewal, or of one request for alerts
	MaxText    = 1024             // bytes of an id, of a client's or an owner's name
	MaxAwait   = 50 * time.Second // how long a request of Await may last: many proxies give up after a minute without an answer
	MaxTicket  = int64(1)<<53 - 1 // of a claim; see driver.Place
)

// An EnterRequest is a call of Enter.
type EnterRequest struct {
	Claim Claim `json:"claim"`
}

// An AwaitRequest is a call of Await that ends without news after a time.
type AwaitRequest struct {
	Claim   Claim         `json:"claim"`
	Within  time.Duration `json:"within_ns"`
	Replica string        `json:"replica,omitempty"` // of the last PlaceAnswer about the claim
}

// A RenewRequest is a call of Renew.
type RenewRequest struct {
	Claims []Claim `json:"claims"`
}

// A LeaveRequest is a call of Leave.
type LeaveRequest struct {
	Claim Claim         `json:"claim"`
	Keep  time.Duration `json:"keep_ns,omitempty"`
}

// A ListRequest is a call of List.
type ListRequest struct {
	Name   string `json:"name,omitempty"`
	Prefix string `json:"prefix,omitempty"`
}

// A BreakRequest is a call of Break.
type BreakRequest struct {
	Name   string `json:"name"`
	Ticket int64  `json:"ticket,string"`
	Ask    bool   `json:"ask,omitempty"`
	Record []byte `json:"record,omitempty"`
}

// An AlertsRequest has the service renew some claims once, and then tell when they are in danger.
type AlertsRequest struct {
	Claims []Claim `json:"claims"`
}

// An Alert says which claims of an AlertsRequest are concerned, by their numbers from 0.
type Alert struct {
	Danger []int `json:"danger,omitempty"` // to be renewed at once: the answer shows what happened to them
	Again  []int `json:"again,omitempty"`  // of which this server hears nothing more: they need another request for alerts
}

// Nothing is the body of a request that has no arguments.
type Nothing struct{}

// A PlaceAnswer answers Enter and Await.
type PlaceAnswer struct {
	Place   *Place `json:"place"`
	Replica string `json:"replica,omitempty"` // which hears of the claim, if the store tells only one
}

// A RenewAnswer answers Renew: each claim at the same index.
type RenewAnswer struct {
	Renewals []Renewal `json:"renewals"`
}

// A LeaveAnswer answers Leave.
type LeaveAnswer struct {
	Left bool `json:"left"`
}

// A ListPart is one line of List's answer: how many more keys or rows the store has read, the queue of a name, an error, or
// the end.
type ListPart struct {
	Heard   int      `json:"heard,omitempty"`
	Listing *Listing `json:"listing,omitempty"`
	Error   *Error   `json:"error,omitempty"`
	End     bool     `json:"end,omitempty"`
}

// A BreakAnswer answers Break.
type BreakAnswer struct {
	Claim *ClaimInfo `json:"claim"`
}

// An IdentityAnswer answers Identity.
type IdentityAnswer struct {
	Identity string `json:"identity"`
}

// A TraitsAnswer answers Traits. It also says which optional interfaces of package driver the store has.
type TraitsAnswer struct {
	Traits  *StoreTraits `json:"traits"`
	Lists   bool         `json:"lists"`
	Watches bool         `json:"watches"`
	Breaks  bool         `json:"breaks"`
	Alerts  bool         `json:"alerts"`
}

// An Answer is one of the answers. Whole reports whether it has the fields that such an answer must have; other JSON does
// not have them.
type Answer interface{ Whole() bool }

// Whole is [Answer.Whole].
func (a *PlaceAnswer) Whole() bool { return a.Place != nil }

// Whole is [Answer.Whole].
func (a *RenewAnswer) Whole() bool { return len(a.Renewals) > 0 }

// Unreachable returns the error of a service that could not reach its store for any of the claims, or nil. Its outcome is that of
// all of them: unsent if none was.
func (a *RenewAnswer) Unreachable() (err error) {
	for i := range a.Renewals {
		e := a.Renewals[i].Error
		if e == nil || !e.Unreachable {
			return nil
		}
		if err == nil || driver.OutcomeOf(err) == driver.OutcomeUnsent {
			err = e.Err()
		}
	}
	return err
}

// Whole is [Answer.Whole].
func (a *LeaveAnswer) Whole() bool { return a.Left }

// Whole is [Answer.Whole].
func (a *BreakAnswer) Whole() bool { return a.Claim != nil }

// Whole is [Answer.Whole].
func (a *IdentityAnswer) Whole() bool { return a.Identity != "" }

// Whole is [Answer.Whole].
func (a *TraitsAnswer) Whole() bool { return a.Traits != nil && a.Traits.Store != "" }

// Compose returns a request's body. It refuses a body that is too large for any server.
func Compose(request any) ([]byte, error) {
	body, err := json.Marshal(request)
	if err == nil && len(body) > MaxRequest {
		err = fmt.Errorf("the request has %d bytes; the limit is %d", len(body), MaxRequest)
	}
	if err != nil {
		return nil, driver.Refused(err)
	}
	return body, nil
}
