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

// handleHeader has the handle of a claim. It is in no URL, and no message repeats it: who has a handle can release the lock.
const handleHeader = "Stile-Handle"

// A handle names a claim and has all that a server must know to renew it, so no server keeps anything. As text its fields
// stand between dots. A client's own handle is only the id: it has the rest from the first answer.
type handle struct {
	id               string
	ticket           int64 // 0 before the first answer
	weight, capacity int64
	ttl              time.Duration
}

// The lengths of ids. The shortest one has room for 128 random bits, as letters and digits of either case.
const (
	minID = 22
	maxID = 64
)

var (
	errNoHandle  = errors.New("the request needs the header " + handleHeader + ", with the handle that the PUT was answered with")
	errBadHandle = fmt.Errorf("the header %s is a handle from an answer of this service, or, with PUT and DELETE, an id of your own: "+
		"from %d to %d letters and digits, drawn at random for each lock that you take", handleHeader, minID, maxID)
)

// readHandle reads a handle.
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
	if numbers[3] > driver.MaxTTL.Milliseconds() || h.ticket > api.MaxTicket || h.capacity > driver.All || h.weight > h.capacity {
		return handle{}, errBadHandle
	}
	h.ttl = time.Duration(numbers[3]) * time.Millisecond
	return h, nil
}

func notOfID(r rune) bool {
	return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_'
}

func (h *handle) String() string {
	if h.ticket == 0 {
		return h.id
	}
	return fmt.Sprintf("%s.%d.%d.%d.%d", h.id, h.ticket, h.weight, h.capacity, h.ttl.Milliseconds())
}
