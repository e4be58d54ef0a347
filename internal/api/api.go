// Package api has the requests and answers of the lock service. Each request is one call of package driver, as JSON. Package
// server answers the requests, and package store/remote sends them.
//
// Durations are integers of nanoseconds, in fields that end in _ns. Tickets are strings of digits: JavaScript and jq round
// numbers from 1<<53 on, and a token, which includes a ticket, may be larger. Records are base64.
//
// An error is JSON too: see [Error]. Any other answer comes from something between the client and the service, such as a
// proxy. The outcome of its request is unknown.
package api

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
)

// The paths of the requests. All are POST requests with a JSON body, except Batch, whose body has a line of JSON for each item,
// and Watch: GET with the parameter name. Watch and Alerts answer with events.
const (
	Enter    = "/v1/enter"    // EnterRequest, PlaceAnswer
	Await    = "/v1/await"    // AwaitRequest, PlaceAnswer
	Renew    = "/v1/renew"    // RenewRequest, RenewAnswer
	Leave    = "/v1/leave"    // LeaveRequest, LeaveAnswer
	Batch    = "/v1/batch"    // a BatchItem per line, a BatchAnswer per line
	List     = "/v1/list"     // ListRequest, a ListPart per line
	Break    = "/v1/break"    // BreakRequest, BreakAnswer
	Identity = "/v1/identity" // Nothing, IdentityAnswer
	Traits   = "/v1/traits"   // Nothing, TraitsAnswer
	Watch    = "/v1/watch"    // events
	Alerts   = "/v1/alerts"   // AlertsRequest, events
)

// The media types of bodies.
const (
	JSON   = "application/json"
	Lines  = "application/x-ndjson"
	Events = "text/event-stream"
)

// The events of Watch and of Alerts. A line with a leading colon is only a sign of life.
const (
	EventChanged = "event: changed"
	EventAlert   = "event: alert" // its data is an Alert
	EventEnd     = "event: end"   // its data is an Error
	EventData    = "data: "
)

// Alive is the longest time between two events or signs of life of a service.
const Alive = 10 * time.Second

// TraitsTag is the header of each answer with the tag of the store's traits. Different traits have different tags.
const TraitsTag = "Stile-Traits"

// StoreID is the header in which a client names the id of the store that its request is meant for. A service over another
// store refuses the request with CodeStore, and nothing enters its store.
const StoreID = "Stile-Store"

// RequestID is the header of each answer with the id that the service drew for the request.
const RequestID = "Stile-Request"

// Bounds of requests and answers.
const (
	MaxRequest = 1 << 20          // bytes of a request's body
	MaxAnswer  = 8 << 20          // bytes of an answer, except List's
	MaxList    = 256 << 20        // bytes of List's answer
	MaxClaims  = 512              // claims of one renewal, or of one request for alerts
	MaxItems   = 128              // lines of a batch
	MaxText    = 1024             // bytes of an id, a client or an owner
	MaxAwait   = 50 * time.Second // for an Await: many proxies give up after a minute without an answer
	MaxTicket  = int64(1)<<53 - 1 // of a claim; see driver.Place
)

// An EnterRequest is a call of Enter.
type EnterRequest struct {
	Claim Claim `json:"claim"`
}

// An AwaitRequest is a call of Await that ends without news after Within.
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

// An AlertsRequest asks the service to renew some claims once, and then to send alerts about them.
type AlertsRequest struct {
	Claims []Claim `json:"claims"`
}

// An Alert is about some claims of an AlertsRequest, by their indexes.
type Alert struct {
	Danger []int `json:"danger,omitempty"` // must be renewed at once: the answer shows what happened to them
	Again  []int `json:"again,omitempty"`  // this server hears no more of them: they need a new request for alerts
}

// Nothing is the body of a request without arguments.
type Nothing struct{}

// A PlaceAnswer answers Enter and Await.
type PlaceAnswer struct {
	Place   *Place `json:"place"`
	Replica string `json:"replica,omitempty"` // which hears of the claim, if the store notifies only one replica
}

// A RenewAnswer answers Renew: each claim at the same index.
type RenewAnswer struct {
	Renewals []Renewal `json:"renewals"`
}

// A LeaveAnswer answers Leave.
type LeaveAnswer struct {
	Left bool `json:"left"`
}

// A ListPart is one line of List's answer: the number of keys or rows that the store has read since the last line, the queue
// of a name, an error, or the end.
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

// An IdentityAnswer answers Identity. The service reads the id from its store for each answer.
type IdentityAnswer struct {
	Identity string `json:"identity"`
}

// A TraitsAnswer answers Traits. It also has the optional interfaces of the store's driver.
type TraitsAnswer struct {
	Traits  *StoreTraits `json:"traits"`
	Lists   bool         `json:"lists"`
	Watches bool         `json:"watches"`
	Breaks  bool         `json:"breaks"`
	Alerts  bool         `json:"alerts"`
}

// An Answer is the answer to a request. Whole reports whether the required fields are there; other JSON lacks them.
type Answer interface{ Whole() bool }

// Whole is [Answer.Whole].
func (a *PlaceAnswer) Whole() bool { return a.Place != nil }

// Whole is [Answer.Whole].
func (a *RenewAnswer) Whole() bool { return len(a.Renewals) > 0 }

// Unreachable returns an error if the service could not reach its store for any of the claims, else nil. The outcome is
// unsent only if no renewal was sent.
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

// Compose returns a request's body. It refuses a body that exceeds MaxRequest.
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
