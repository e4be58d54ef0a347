package server

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
)

// handleHeader is the header with a claim's handle. No URL and no message shows a handle: it is the right to release the
// lock.
const handleHeader = "Stile-Handle"

// A handle names a claim and carries all that a server needs to renew it, so a server keeps nothing. Its text has the fields
// between dots. A handle that a client makes is only an id; the first answer adds the rest.
type handle struct {
	id               string
	ticket           int64 // 0 before the first answer
	weight, capacity int64
	ttl              time.Duration
}

// The bounds of an id's length. The shortest id has room for 128 random bits, as letters and digits of either case.
const (
	minID = 22
	maxID = 64
)

var (
	errNoHandle = errors.New("the request needs the header " + handleHeader +
		", with the handle that the PUT was answered with")
	errBadHandle = fmt.Errorf("the header %s is a handle from an answer of this service, or, with PUT and DELETE, an id of "+
		"your own: "+
		"from %d to %d letters and digits, drawn at random for each lock that you take", handleHeader, minID, maxID)
)

// readHandle parses a handle.
func readHandle(text string) (handle, error) {
	fields := strings.Split(text, ".")
	h := handle{id: fields[0]}
	if len(h.id) < minID || len(h.id) > maxID || strings.ContainsFunc(h.id, notOfID) {
		return handle{}, errBadHandle
	}
	if len(fields) == 1 {
		return h, nil
	}
	var numbers [4]int64
	if len(fields) != 1+len(numbers) {
		return handle{}, errBadHandle
	}
	for i, field := range fields[1:] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil || n < 1 {
			return handle{}, errBadHandle
		}
		numbers[i] = n
	}
	h.ticket, h.weight, h.capacity = numbers[0], numbers[1], numbers[2]
	if numbers[3] > driver.MaxTTL.Milliseconds() || h.ticket > api.MaxTicket || h.capacity > driver.All ||
		h.weight > h.capacity {
		return handle{}, errBadHandle
	}
	h.ttl = time.Duration(numbers[3]) * time.Millisecond
	return h, nil
}

func notOfID(r rune) bool {
	return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_'
}

// claimID returns the id of the claim. It says how much the claim takes: a store finds a claim by its id, so a PUT for a writer
// would otherwise find the claim of a reader with the same id, and its client would work beside other readers.
func (h *handle) claimID() string { return fmt.Sprintf("%s.%d.%d", h.id, h.weight, h.capacity) }

func (h *handle) String() string {
	if h.ticket == 0 {
		return h.id
	}
	return fmt.Sprintf("%s.%d.%d.%d.%d", h.id, h.ticket, h.weight, h.capacity, h.ttl.Milliseconds())
}
