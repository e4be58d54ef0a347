package api

import (
	"encoding/json"
	"strings"
)

// A BatchItem is a line of a batch: a call of Enter, or a call of Leave. The service makes the calls of a batch side by side.
// Each has its own answer or error, as if it had come in a request of its own.
type BatchItem struct {
	Enter *EnterRequest `json:"enter,omitempty"`
	Leave *LeaveRequest `json:"leave,omitempty"`
}

// A BatchAnswer is a line of the answer to a batch. The lines come in the order in which the calls return. If a line is
// missing, the outcome of its item is unknown.
type BatchAnswer struct {
	Item   int             `json:"item"`             // the number of the item's line, from 0
	Answer json.RawMessage `json:"answer,omitempty"` // to Enter or Leave
	Error  *Error          `json:"error,omitempty"`
	After  int             `json:"retry_after_s,omitempty"` // of CodeTooMany: as the header Retry-After
}

// ItemRest is the most by which AppendItem makes a batch longer, beyond the body of the item.
const ItemRest = 16

// AppendItem appends an item to the body of a batch: a request for Enter or Leave, by its path and its body.
func AppendItem(batch []byte, path string, body []byte) []byte {
	verb := path[strings.LastIndexByte(path, '/')+1:]
	batch = append(append(append(batch, `{"`...), verb...), `":`...)
	return append(append(batch, body...), "}\n"...)
}
